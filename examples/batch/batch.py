"""Computes all 1,000 rows of the picture on the deployed endpoint and writes them as a PNG file.

    python batch.py [FILE]
"""

import struct
import sys
import time
import zlib

from mandelbrot import HEIGHT, WIDTH, row


def png(rows: list[bytes]) -> bytes:
    """A greyscale PNG file (RFC 2083) of rows of one byte for each point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", WIDTH, len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + line for line in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def main() -> None:
    file = sys.argv[1] if len(sys.argv) > 1 else "mandelbrot.png"
    began = time.monotonic()
    rows = []
    for line in row.map(range(HEIGHT)):
        rows.append(line)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {HEIGHT} rows", file=sys.stderr)
    with open(file, "wb") as output:
        output.write(png(rows))
    print(f"{file}: {len(rows)} rows in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
