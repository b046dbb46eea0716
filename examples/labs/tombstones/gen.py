#!/usr/bin/env python3
"""Writes the lab's files: by_channel.csv, by_channel_day.csv, delete_day1.cql.

Channel 1 has --big rows spread evenly over 30 days from 2026-09-01 UTC
(1,000,000: one each 2.592 s, 33,334 on day one); channels 2..101 have
--small rows each. The same arguments give the same bytes.
"""
import argparse
import datetime
import pathlib
import random

START = datetime.datetime(2026, 9, 1, tzinfo=datetime.timezone.utc)
DAY_MS = 86_400_000
WORDS = ("good morning everyone the build is green again who takes the night shift please read the notes "
         "before the meeting I will be late today thanks see you tomorrow in the other channel").split()


def rows(channel, count):
    rng = random.Random(channel)
    for i in range(count):
        yield i * 30 * DAY_MS // count, i + 1, " ".join(rng.choices(WORDS, k=14))


def stamp(ms):
    t = START + datetime.timedelta(milliseconds=ms)
    return t.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}+0000", t.strftime("%Y-%m-%d")


def write(out, big, small, channels):
    out.mkdir(parents=True, exist_ok=True)
    total = deleted = 0
    with open(out / "by_channel.csv", "w") as plain, open(out / "by_channel_day.csv", "w") as days, \
            open(out / "delete_day1.cql", "w") as deletes:
        for channel in range(1, channels + 2):
            for ms, message, body in rows(channel, big if channel == 1 else small):
                at, day = stamp(ms)
                plain.write(f"{channel},{at},{message},{body}\n")
                days.write(f"{channel},{day},{at},{message},{body}\n")
                total += 1
                if channel == 1 and ms < DAY_MS:
                    deletes.write(
                        "DELETE FROM chat.messages_by_channel WHERE channel_id = 1 "
                        f"AND sent_at = '{at}' AND message_id = {message};\n")
                    deleted += 1
    return total, deleted


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gen"))
    p.add_argument("--big", type=int, default=1_000_000)
    p.add_argument("--small", type=int, default=1_000)
    p.add_argument("--channels", type=int, default=100)
    a = p.parse_args()
    total, deleted = write(a.out, a.big, a.small, a.channels)
    print(f"{total} rows, {deleted} deletes")


if __name__ == "__main__":
    main()
