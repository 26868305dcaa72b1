"""Frames as docs/reference/protocol.md has them; the golden file is read by the platform's tests too."""

from __future__ import annotations

import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import ROOT

from svc._runtime.link import protocol
from svc._runtime.link.protocol import FrameError, FrameReader, encode, parse_head

GOLDEN = json.loads((ROOT / "docs/reference/protocol-golden/frames.json").read_text())


class Golden(unittest.TestCase):
    def test_each_golden_frame_encodes_to_its_bytes_and_reads_back(self):
        for frame in GOLDEN:
            with self.subTest(frame["name"]):
                raw = bytes.fromhex(frame["hex"])
                self.assertEqual(getattr(protocol, frame["name"]), frame["type"])
                head, body = frame["head"].encode(), frame["body"].encode()
                self.assertEqual(encode(frame["type"], frame["channel"], head, body, frame["flags"]), raw)
                self.assertEqual(
                    FrameReader().push(raw), [(frame["type"], frame["flags"], frame["channel"], head, body)]
                )
                parse_head(head)

    def test_there_is_one_of_each_type(self):
        names = {name for name, value in vars(protocol).items() if name.isupper() and isinstance(value, int)}
        self.assertEqual({frame["name"] for frame in GOLDEN}, names - {"PROTOCOL", "MORE", "FRAME_HEAD_MAX_BYTES", "FRAME_MAX_BYTES"})


class Stream(unittest.TestCase):
    def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(self):
        chance = random.Random(1)
        for _ in range(200):
            frames = [
                (chance.randrange(256), chance.randrange(256), chance.randrange(2**32), {"a": "é" * chance.randrange(9)}, chance.randbytes(chance.randrange(400)))
                for _ in range(chance.randrange(1, 8))
            ]  # fmt: skip
            stream = b"".join(encode(type, channel, head, body, flags) for type, flags, channel, head, body in frames)
            reader, seen, at = FrameReader(), [], 0
            while at < len(stream):
                step = chance.randrange(1, 60)
                seen += reader.push(stream[at : at + step])
                at += step
            self.assertEqual([(t, f, c, parse_head(h), b) for t, f, c, h, b in seen], frames)

    def test_a_length_outside_the_bounds_ends_the_link(self):
        for length in (0, 7, 65 * 1024 * 1024):
            with self.assertRaises(FrameError):
                FrameReader().push(length.to_bytes(4, "big") + bytes(8))

    def test_a_head_longer_than_its_frame_ends_the_link(self):
        with self.assertRaises(FrameError):
            FrameReader().push(bytes([0, 0, 0, 8, 1, 0, 0, 9, 0, 0, 0, 0]))


if __name__ == "__main__":
    unittest.main()
