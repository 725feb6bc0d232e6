# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts: a writer whose acknowledgements are noted outside the machine, and what a filesystem's image still holds of it."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumblab import guest
from plumblab.paths import Paths

from .harness import HOME

DIRECTORY = "records"  # on the volume
# e2fsck(8): 0 nothing to do, 1 put right; a journal that was replayed counts as the latter.
_REPAIRED = (0, 1)


class Witness:
    """A writer in the guest, and the last of its acknowledgements that has arrived here."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.acknowledged = 0
        self._reader = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):  # cut short with the machine: it may be the beginning of a larger number
                return
            assert int(line) == self.acknowledged + 1, f"{line!r} after {self.acknowledged}"
            self.acknowledged = int(line)

    def begin(self) -> None:
        """Let it write."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self._reader.start()

    def wait_for(self, acknowledged: int, seconds: float = 30) -> None:
        """Until so many records are acknowledged."""
        end = time.monotonic() + seconds
        while self.acknowledged < acknowledged:
            assert self._reader.is_alive(), f"the writer ended after {self.acknowledged} records: {self.process.poll()}"
            assert time.monotonic() < end, f"{self.acknowledged} records in {seconds} s; wanted {acknowledged}"
            time.sleep(0.005)

    def end(self) -> None:
        """Its last record, and all acknowledgements."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self._reader.join(timeout=60)


@contextmanager
def witness(paths: Paths, volume: str) -> Iterator[Witness]:
    """A writer that is ready on a mounted volume. It is gone afterwards, also where the machine went before."""
    words = [*guest.ssh_words(paths), f"exec python3 {HOME}/records.py {volume}/{DIRECTORY}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the writer did not start"
        yield Witness(process)
    finally:
        process.kill()
        process.wait(timeout=20)


@contextmanager
def repaired(image: Path, offset: int = 0) -> Iterator[Path | None]:
    """The ext4 that lies *offset* bytes into an image, as a file of its own, its journal replayed; None where it is beyond repair.

    In user space and without a mount: e2fsck replays the journal as the kernel would, and repairs what it can. The filesystem is cut out
    of the image for it: with libext2fs's own "?offset=", e2fsck 1.47 forgets the offset when it opens the filesystem again after the replay.
    """
    with tempfile.TemporaryDirectory(dir=image.parent) as out:
        volume = Path(out) / "volume"
        words = ["dd", f"if={image}", f"of={volume}", "bs=1M", f"skip={offset}", "iflag=skip_bytes", "conv=sparse", "status=none"]
        subprocess.run(words, check=True, timeout=120)
        done = subprocess.run(["e2fsck", "-fy", volume], capture_output=True, text=True, errors="replace", timeout=120, check=False)
        yield volume if done.returncode in _REPAIRED else None


def files_of(volume: Path) -> dict[str, bytes]:
    """The writer's files on an ext4."""
    with tempfile.TemporaryDirectory(dir=volume.parent) as out:
        subprocess.run(["debugfs", "-R", f"rdump /{DIRECTORY} {out}", volume], capture_output=True, timeout=120, check=False)
        return {path.name: path.read_bytes() for path in (Path(out) / DIRECTORY).glob("*") if path.is_file()}


def read_image(image: Path, offset: int = 0) -> dict[str, bytes]:
    """The writer's files on an ext4 *offset* bytes into an image, its journal replayed first; none where it is beyond repair."""
    with repaired(image, offset) as volume:
        return files_of(volume) if volume else {}


def read_guest(paths: Paths, volume: str) -> dict[str, bytes]:
    """The same from a mounted volume, by way of an archive."""
    script = f"cd {volume}/{DIRECTORY} && tar -cf - ."
    with tempfile.TemporaryDirectory() as out:
        archive = subprocess.run([*guest.ssh_words(paths), script], capture_output=True, timeout=120, check=False).stdout
        subprocess.run(["tar", "-xf", "-", "-C", out], input=archive, capture_output=True, timeout=60, check=False)
        return {path.name: path.read_bytes() for path in Path(out).glob("*") if path.is_file()}
