# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  platform:
    description: Target OS/families that can be operated against.
    support: full
    platforms: linux
requirements:
  - Python 3.8 or newer on the managed host. No additional Python library is needed.
  - Root. Set C(become) on the task or the play.
"""

    ACTIONGROUP = r"""
options: {}
attributes:
  action_group:
    description: Use O(ignore:module_defaults) group C(group/plumbline.ssd.ssd) to set defaults for all modules of the collection.
    support: full
    membership: [plumbline.ssd.ssd]
"""

    CONTROLLER = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  platform:
    description: Target OS/families that can be operated against.
    support: full
    platforms: linux
requirements:
  - Nothing on the managed hosts. On the controller no additional Python library is needed.
"""
