# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machine in which this collection proves what it claims."""
