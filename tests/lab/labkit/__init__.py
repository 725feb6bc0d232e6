# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in the lab's machine share: the machine, its disks, the modules' entry points, an independent reading."""
