"""Gzipped data of others, unpacked within bounds: text shrinks to a tenth, a bomb to a thousandth.

What is more than 64 MiB must not be more than 200 times its packed size.
"""

from __future__ import annotations

import gzip
import io

MAGIC = b"\x1f\x8b"
MOST_RATIO = 200
_ALWAYS = 64 << 20
_PIECE = 1 << 20


def decompress(data: bytes) -> bytes:
    """Return the bytes of gzipped data, or raise ValueError where they are too many for it."""
    most = max(_ALWAYS, MOST_RATIO * len(data))
    pieces = bytearray()
    with gzip.open(io.BytesIO(data)) as packed:
        while piece := packed.read(_PIECE):
            pieces += piece
            if len(pieces) > most:
                raise ValueError(f"{len(data):,} bytes unpack to more than {most:,}, which no real data does")
    return bytes(pieces)
