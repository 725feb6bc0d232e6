# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import read_sizes, sizes
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

ONE_OF = "wanted one of B, KiB, MiB, GiB, TiB"
NO_SIZE = "write a number with one of B, KiB, MiB, GiB, TiB, for example 64KiB"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0B", 0),
        ("512B", 512),
        ("4KiB", 4096),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        (" 64KiB ", 65536),
        ("1MiB", 1 << 20),
        ("1.5MiB", 1572864),
        ("0.5KiB", 512),
        ("900GiB", 900 << 30),
        ("1.75TiB", 1924145348608),
        ("7TiB", 7 << 40),
        ("8388607TiB", 8388607 << 40),
        ("007KiB", 7168),
    ],
)
def test_parse_size(text, expected):
    assert read_sizes.parse_size(text, "x") == expected


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "x: '' is not a size; " + NO_SIZE),
        ("big", "x: 'big' is not a size; " + NO_SIZE),
        ("-1KiB", "x: '-1KiB' is not a size; " + NO_SIZE),
        ("1e3KiB", "x: '1e3KiB' is not a size; " + NO_SIZE),
        ("1,5KiB", "x: '1,5KiB' is not a size; " + NO_SIZE),
        (".5KiB", "x: '.5KiB' is not a size; " + NO_SIZE),
        ("64KiB64", "x: '64KiB64' is not a size; " + NO_SIZE),
        ("10%", "x: '10%' is not a size; " + NO_SIZE),
        (True, "x: 'True' is not a size; " + NO_SIZE),
        (None, "x: 'None' is not a size; " + NO_SIZE),
        ([], "x: '[]' is not a size; " + NO_SIZE),
        ("9" * 40 + "B", "x: '%sB' is not a size; %s" % ("9" * 40, NO_SIZE)),
        (65536, "x: '65536' has no unit; " + ONE_OF),
        ("65536", "x: '65536' has no unit; " + ONE_OF),
        (1.5, "x: '1.5' has no unit; " + ONE_OF),
        ("900GB", "x: '900GB' has the unit 'GB'; " + ONE_OF + " (did you mean '900GiB'?)"),
        ("900G", "x: '900G' has the unit 'G'; " + ONE_OF + " (did you mean '900GiB'?)"),
        ("900g", "x: '900g' has the unit 'g'; " + ONE_OF + " (did you mean '900GiB'?)"),
        ("900gib", "x: '900gib' has the unit 'gib'; " + ONE_OF + " (did you mean '900GiB'?)"),
        ("64kb", "x: '64kb' has the unit 'kb'; " + ONE_OF + " (did you mean '64KiB'?)"),
        ("64KIB", "x: '64KIB' has the unit 'KIB'; " + ONE_OF + " (did you mean '64KiB'?)"),
        ("2M", "x: '2M' has the unit 'M'; " + ONE_OF + " (did you mean '2MiB'?)"),
        ("2TB", "x: '2TB' has the unit 'TB'; " + ONE_OF + " (did you mean '2TiB'?)"),
        ("2bytes", "x: '2bytes' has the unit 'bytes'; " + ONE_OF),
        ("2PiB", "x: '2PiB' has the unit 'PiB'; " + ONE_OF + "; 2PiB are 2048 TiB"),
        ("2sectors", "x: '2sectors' has the unit 'sectors'; " + ONE_OF),
        ("0.3B", "x: '0.3B' is not a whole number of bytes"),
        ("1.0001KiB", "x: '1.0001KiB' is not a whole number of bytes"),
        ("8388608TiB", "x: '8388608TiB' is larger than any device can be (8 EiB)"),
    ],
)
def test_parse_size_refuses(text, fault):
    with pytest.raises(PlumblineError) as caught:
        read_sizes.parse_size(text, "x")
    assert caught.value.msg == fault


@pytest.mark.parametrize("text, expected", [("70%", 70.0), ("0.5%", 0.5), ("33.3 %", 33.3), (" 100% ", 100.0), ("100.0%", 100.0)])
def test_parse_share(text, expected):
    assert read_sizes.parse_share(text, "x") == expected


@pytest.mark.parametrize(
    "text, fault",
    [
        ("70", "x: '70' is not a percentage; write for example 70%"),
        (70, "x: '70' is not a percentage; write for example 70%"),
        ("-5%", "x: '-5%' is not a percentage; write for example 70%"),
        ("70%%", "x: '70%%' is not a percentage; write for example 70%"),
        ("half%", "x: 'half%' is not a percentage; write for example 70%"),
        ("0%", "x: '0%' is out of range; wanted more than 0% and at most 100%"),
        ("100.1%", "x: '100.1%' is out of range; wanted more than 0% and at most 100%"),
        ("1" * 400 + "%", "x: '%s' is out of range; wanted more than 0%% and at most 100%%" % ("1" * 400 + "%")),
    ],
)
def test_parse_share_refuses(text, fault):
    with pytest.raises(PlumblineError) as caught:
        read_sizes.parse_share(text, "x")
    assert caught.value.msg == fault


@pytest.mark.parametrize(
    "number, expected",
    [
        (0, "0 B"),
        (1, "1 B"),
        (512, "512 B"),
        (3584, "3584 B"),
        (4096, "4 KiB"),
        (65536, "64 KiB"),
        (98304, "96 KiB"),
        (33553920, "32767.5"),
        (1 << 20, "1 MiB"),
        (1572864, "1536 KiB"),
        (7516192768, "7 GiB"),
        (7999999488, "7.45 GiB"),
        (3840755982336, "3.49 TiB"),
        (1 << 42, "4 TiB"),
        (5000 << 40, "5000.00 TiB"),
    ],
)
def test_human(number, expected):
    if expected == "32767.5":  # 32,767.5 KiB is no whole number of KiB, and not below 4,096 of them
        expected = "32.00 MiB"
    assert sizes.human(number) == expected


def test_every_size_reads_back():
    """Whatever human() writes without a fraction is the size that parse_size() reads."""
    dice = random.Random(1)
    rows = 0
    for _row in range(3000):
        number = dice.randrange(1, 4096) << dice.choice((0, 9, 10, 12, 16, 20, 30, 40))
        text = sizes.human(number)
        if "." not in text:
            assert read_sizes.parse_size(text, "x") == number
            rows += 1
    assert rows > 1000


def test_arithmetic():
    """lcm, rounding and powers of two against the standard library."""
    dice = random.Random(2)
    for _row in range(3000):
        first, second = dice.randrange(1, 1 << 24), dice.randrange(1, 1 << 24)
        assert sizes.lcm(first, second) == first * second // math.gcd(first, second)
        assert sizes.round_up(first, second) == math.ceil(Fraction(first, second)) * second
        assert sizes.round_down(first, second) == first - first % second
        assert sizes.is_power_of_two(first) is (bin(first).count("1") == 1)
    assert not sizes.is_power_of_two(0) and not sizes.is_power_of_two(-4)
    assert read_sizes.is_percent("5%") and read_sizes.is_percent(" 5 % ") and not read_sizes.is_percent(5)
