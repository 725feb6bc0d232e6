# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the guest's root image, and finding it again in the cache."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from . import apt_sources
from .commands import run
from .errors import LabError
from .paths import LAB, Paths

BUILDER = "2"
SUITES = ("bookworm", "trixie")
ROOT_BYTES = 6 * 1024**3
RECIPE = LAB / "image"
_INPUTS = ("packages.txt", "repository.txt", "before-packages.sh", "customise.sh", "counting-python.c")
# The root is a plain virtio disk: an initrd without LVM and md boots seconds sooner under TCG.
_INITRD = "/usr/share/initramfs-tools"
_EXCLUDED = (
    "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
    *(f"{_INITRD}/{folder}/{name}" for name in ("lvm2", "mdadm", "dmsetup", "cryptroot") for folder in ("hooks", "scripts/*")),
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """A bootable root: with a kernel (built here) or with a boot loader of its own (cloud)."""

    root: Path
    root_format: str
    kernel: Path | None
    initrd: Path | None
    seed: Path | None = None


def read_list(path: Path) -> list[str]:
    """The words of a list file: one per line, comments dropped."""
    lines = (line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def digest(suite: str, files: dict[str, bytes], public_key: bytes) -> str:
    """The cache key: everything that the image depends on."""
    summed = hashlib.sha256()
    inputs = {"builder": BUILDER.encode(), "suite": suite.encode(), "public key": public_key, **files}
    for name in sorted(inputs):
        for part in (name.encode(), inputs[name]):
            summed.update(len(part).to_bytes(8, "big") + part)
    return summed.hexdigest()[:16]


def recipe_files() -> dict[str, bytes]:
    """The recipe's files by name."""
    return {name: (RECIPE / name).read_bytes() for name in _INPUTS}


def ensure_key(paths: Paths) -> None:
    """The lab's own SSH key; made once per cache."""
    if paths.key.exists() and paths.public_key.exists():
        return
    paths.key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths.key.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "plumbline-lab", "-f", paths.key])


def ensure(paths: Paths, suite: str) -> Image:
    """The image of a suite, built where the cache does not have it."""
    if suite not in SUITES:
        raise LabError(f"unknown suite {suite!r}; the lab knows {', '.join(SUITES)}")
    ensure_key(paths)
    target = paths.images / f"{suite}-{digest(suite, recipe_files(), paths.public_key.read_bytes())}"
    if not target.is_dir():
        _build(paths, suite, target)
    return in_folder(target)


def in_folder(folder: Path) -> Image:
    """A built image by its folder."""
    return Image(folder / "root.raw", "raw", folder / "kernel", folder / "initrd.img")


def _build(paths: Paths, suite: str, target: Path) -> None:
    """Build beside the target and rename: a broken build is never found."""
    if os.geteuid() != 0:
        raise LabError("building the image needs root (mmdebstrap writes other users' files)")
    paths.images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.images, prefix=".build-") as name:
        build = Path(name)
        sources = build / "debian.sources"
        sources.write_text(apt_sources.for_suite(apt_sources.read_host(), apt_sources.host_codename(), suite), encoding="utf-8")
        counter = build / "counting-python"
        run(["gcc", "-O2", "-static", "-s", "-o", counter, RECIPE / "counting-python.c"])
        root = build / "root"
        run(
            [
                # What it mounts goes with its last process, even if that is killed: no remover of the cache gets to the host's /sys.
                "unshare", "--mount",
                "mmdebstrap",
                "--variant=minbase",
                "--architectures=amd64",
                "--include=" + ",".join(read_list(RECIPE / "packages.txt")),
                *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
                '--aptopt=Acquire::Languages "none"',
                '--aptopt=APT::Install-Recommends "false"',
                f'--essential-hook=sh {quote(str(RECIPE / "before-packages.sh"))} "$1"',
                f'--customize-hook=sh {quote(str(RECIPE / "customise.sh"))} "$1" {quote(str(RECIPE))} {quote(str(paths.public_key))} {quote(str(counter))}',
                suite,
                root,
                sources,
            ],
            timeout_seconds=1200,
        )
        finished = build / "image"
        finished.mkdir()
        (finished / "kernel").write_bytes(unpacked(_inside(root, "vmlinuz").read_bytes()))
        shutil.copyfile(_inside(root, "initrd.img"), finished / "initrd.img")
        image = finished / "root.raw"
        extended = "lazy_itable_init=1,root_owner=0:0"
        run(["mke2fs", "-q", "-t", "ext4", "-L", "plumbline-root", "-m", "0", "-E", extended, "-d", root, image, f"{ROOT_BYTES // 1024}k"])
        image.chmod(0o444)
        recipe = {"suite": suite, "builder": BUILDER, "packages": read_list(RECIPE / "packages.txt")}
        (finished / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(root)
        finished.rename(target)


def unpacked(kernel: bytes) -> bytes:
    """The kernel in a bzImage, where it is packed with xz as Debian 12's is; any other as it is.

    QEMU starts an unpacked one as well, by its PVH entry. The guest is spared the unpacking, which takes it some seconds under TCG at each boot.
    Fields: Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".
    """
    setup_sectors = kernel[0x1F1] or 4
    offset, length = struct.unpack_from("<II", kernel, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    packed = kernel[begin : begin + length]
    return lzma.LZMADecompressor().decompress(packed) if packed.startswith(b"\xfd7zXZ\0") else kernel


def _inside(root: Path, link: str) -> Path:
    """A link of the new root, followed inside it: its targets are relative to that root."""
    return root / os.readlink(root / link).lstrip("/")
