# SPDX-License-Identifier: Apache-2.0
"""The host is switched off and on again, as far as one daemon can see. All its processes die at once, and with them
namespaces, mounts, groups and the claim in /run; the state directory stays unchanged. Then the boot id is another
one, and all recorded wall clock times are moved back by as long as the host was off.
"""

import os
import sqlite3
import time

from lib import janitor, tree

OTHER_BOOT = "00000000-1111-2222-3333-444444444444"
BOOT_AT, BOOT_SIZE = 8, 40  # in the header of warden.slots
TIMES = {"sandboxes": ("created_ms", "started_ms", "expires_ms"), "snapshots": ("created_ms", "expires_ms"),
         "usage": ("from_ms", "to_ms"), "events": ("ms",)}


def thaw(state):
    """Frozen processes do not die by a signal."""
    for number in janitor.instances(state):
        for path, word in ((f"/sys/fs/cgroup/freezer/cay-{number}", "THAWED"),
                           (f"/sys/fs/cgroup/unified/cay-{number}", "0"), (f"/sys/fs/cgroup/cay-{number}", "0")):
            for top, _dirs, files in os.walk(path):
                for name in ("freezer.state", "cgroup.freeze"):
                    if name in files:
                        try:
                            with open(f"{top}/{name}", "w") as f:
                                f.write(word)
                        except OSError:
                            pass


def kill_daemons(daemon):
    """At once, including the supervisor; sandboxes continue."""
    if daemon.client:
        daemon.client.close()
    until = time.monotonic() + 20 * tree.SLACK
    while True:
        for name in ("cay", "cayd", "cay-warden"):
            daemon.kill(name)
        if not daemon.pids():
            break
        assert time.monotonic() < until, f"does not die: {daemon.pids()}"
        time.sleep(0.01)


def power_off(daemon):
    kill_daemons(daemon)
    # A process that is to die must not run another step, frozen or not.
    for _ in range(3):
        janitor.kill_groups(daemon.state)
        thaw(daemon.state)
    janitor.sweep_instance(daemon.state)


def set_wall_clock(daemon, forward_sec):
    """As if the clock had been set forward while the daemon was not running: all recorded times are moved back."""
    ms = int(forward_sec * 1000)
    with sqlite3.connect(f"{daemon.state}/cay.db") as db:
        for table, columns in TIMES.items():
            for column in columns:
                db.execute(f"UPDATE {table} SET {column}={column}-? WHERE {column}>0", (ms,))
        db.execute("UPDATE meta SET value=CAST(value AS INTEGER)-? WHERE name='alive_ms'", (ms,))


def mark_slots(state):
    """Makes the warden's table one of another boot."""
    with open(f"{state}/warden.slots", "r+b") as f:
        f.seek(BOOT_AT)
        f.write(OTHER_BOOT.encode().ljust(BOOT_SIZE, b"\0"))


def another_boot(daemon, off_sec=0):
    mark_slots(daemon.state)
    set_wall_clock(daemon, off_sec)
    with sqlite3.connect(f"{daemon.state}/cay.db") as db:
        db.execute("UPDATE sandboxes SET clock=?", (OTHER_BOOT,))
        db.execute("UPDATE meta SET value=? WHERE name='boot_id'", (OTHER_BOOT,))


def reboot(daemon, off_sec=0):
    """Switches the host off for this long, and on again."""
    power_off(daemon)
    another_boot(daemon, off_sec)
    daemon.up()
    return daemon.wait_ready(20)
