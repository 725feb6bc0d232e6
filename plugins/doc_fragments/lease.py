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
      - The lease of the run that this call belongs to, as M(plumbline.ssd.stack_plan) returned it. Where it is not that run's any more, nothing is written.
      - Without it, a module that is about to write takes the host's lease for itself, for as long as it runs, and is refused while a run has it.
    type: dict
    default: {}
    suboptions:
      run:
        description: The run.
        type: str
        default: ""
      digest:
        description: The digest of the plan that is carried out.
        type: str
        default: ""
"""
