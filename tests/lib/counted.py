# SPDX-License-Identifier: Apache-2.0
"""A sequence whose bytes are determined by their positions: a hole or a duplicate is detected at once."""

import struct

# argv: bytes to write, descriptor.
WRITER = ("import os,struct,sys\n"
          "n,fd=int(sys.argv[1])//8,int(sys.argv[2])\n"
          "for i in range(0,n,4096): os.write(fd,struct.pack('>%dQ'%min(4096,n-i),*range(i,min(n,i+4096))))\n")
# The same in bursts with pauses: argv also holds the largest burst in bytes and the pause in ms;
# it ends when its standard input does. On a terminal it makes it raw first.
BURSTS = """
import os, random, select, struct, sys, tty
most, pause, fds = int(sys.argv[1]) // 8, int(sys.argv[2]) / 1000, [int(f) for f in sys.argv[3:]]
if os.isatty(0):
    tty.setraw(0)
    os.write(1, b"RAW\\n")
chance, at = random.Random(7), dict.fromkeys(fds, 0)
while not select.select([0], [], [], chance.uniform(0, 2 * pause))[0]:
    fd, n = chance.choice(fds), chance.randint(1, most)
    data = struct.pack(">%dQ" % n, *range(at[fd], at[fd] + n))
    at[fd] += n
    while data:
        data = data[os.write(fd, data):]
"""


def writer(total, fd=1):
    return ["python3", "-c", WRITER, str(total), str(fd)]


def expected(begin, end):
    """The bytes [begin, end) of the sequence."""
    first, last = begin // 8, (end + 7) // 8
    whole = struct.pack(f">{last - first}Q", *range(first, last))
    return whole[begin - first * 8:][:end - begin]
