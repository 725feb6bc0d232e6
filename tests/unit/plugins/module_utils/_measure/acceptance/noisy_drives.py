# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives with noise, in memory and seeded, of which it is known which is the faster one; and the verdicts that they come to beside an incumbent."""

from __future__ import annotations

import itertools
import math
import random

from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance import judge
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.judge import CellRound, ReadBlock, Sampled
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import READ_CELLS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options

DRIVE, INCUMBENT = Sampled("sdb"), Sampled("sda")


def gauss(sd):
    return lambda dice, _state: dice.gauss(0, sd)


def two_rates(low, often):
    """Each block is at the low rate by chance."""
    return lambda dice, _state: math.log(low) * (dice.random() < often) + dice.gauss(0, 0.01)


def two_rates_in_rounds(low, often):
    """The same, for both blocks of a round."""

    def draw(dice, state):
        state.append(state[-1] if len(state) % 2 else math.log(low) * (dice.random() < often))
        return state[-1] + dice.gauss(0, 0.01)

    return draw


def correlated(sd, phi):
    """From block to block of a drive, in the order in which all blocks of a run follow each other: a steady spread of *sd*."""

    def draw(dice, state):
        state[:] = [phi * state[0] + dice.gauss(0, sd * math.sqrt(1 - phi * phi)) if state else dice.gauss(0, sd)]
        return state[0]

    return draw


NOISES = {
    "2 %": gauss(0.02),
    "5 %": gauss(0.05),
    "10 %": gauss(0.10),
    "5 %, 0.5 left": correlated(0.05, 0.5),
    "5 %, 0.95 left": correlated(0.05, 0.95),
    "0.85 in 3 of 10": two_rates(0.85, 0.3),
    "0.7 in 3 of 10": two_rates(0.7, 0.3),
    "0.7 in half": two_rates(0.7, 0.5),
    "0.7 in half rounds": two_rates_in_rounds(0.7, 0.5),
}


def host(dice):
    """What both drives have in common: it drifts by a half, and a neighbour takes a third of every tenth block."""
    phase, at = dice.random(), itertools.count()
    return lambda: 0.25 * math.sin(2 * math.pi * (phase + next(at) / 60)) - 0.4 * (dice.random() < 0.1)


def run_of_a_drive(share, noise, seed, shared=False, cells=READ_CELLS, blocks=5):
    """The verdict on a drive of this share of its incumbent's rate, by all of its cells."""
    dice = random.Random(seed)
    common = host(dice) if shared else lambda: 0.0
    states = ([], [])
    rounds = {cell.name: [] for cell in cells}
    for _round in range(blocks):
        for cell in dice.sample(cells, len(cells)):
            sides = ([], [])
            for side in dice.choice([(0, 1, 1, 0), (1, 0, 0, 1)]):
                sides[side].append(ReadBlock(1000 * (1 if side else share) * math.exp(noise(dice, states[side]) + common())))
            rounds[cell.name].append(CellRound(tuple(sides[0]), tuple(sides[1])))
    return judge.judge_cells([judge.judge_cell(cell, rounds[cell.name], Options(), DRIVE, INCUMBENT) for cell in cells])[0]
