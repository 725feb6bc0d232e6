# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import worst


@pytest.mark.parametrize(
    "verdicts, found",
    [
        (["pass", "fail", "inconclusive"], "fail"),
        (["inconclusive", "unfinished", "pass"], "unfinished"),
        (["pass", "inconclusive"], "inconclusive"),
        (["pass", "pass"], "pass"),
        (["pass", "accepted"], "accepted"),
        (["accepted", "inconclusive"], "inconclusive"),
        ([], "inconclusive"),
    ],
)
def test_worst(verdicts, found):
    assert worst(verdicts) == found
