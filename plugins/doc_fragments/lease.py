# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the lease, for the modules that write."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  lease:
    description:
      - The lease of the run that this call belongs to, as M(plumbline.ssd.stack_plan) returned it. If the run no longer holds the lease,
        nothing is written.
      - Without this option, a module that is about to write takes the host's lease for as long as the module runs. It is refused while
        a run holds the lease.
    type: dict
    default: {}
    suboptions:
      run:
        description: The run, 32 hexadecimal digits.
        type: str
        default: ""
      digest:
        description: The digest of the plan whose steps are carried out.
        type: str
        default: ""
"""
