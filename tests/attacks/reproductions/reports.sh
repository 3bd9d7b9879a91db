#!/usr/bin/env bash
# Reports without machine code, and visitors of `serve`. Started by run.sh: WB, REPO.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"

# --- two reports of ncu's set basic, as a real full one is without the rest of its metrics
DATA=$REPO/tests/data/ncurep/ladder_full.ncu-rep.zst
"$WBPY" -P - "$DATA" <<'P' || exit 2
import struct, sys, zstandard
raw = zstandard.ZstdDecompressor().stream_reader(open(sys.argv[1], "rb")).read()
SIZE = struct.Struct("<I")
def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128]); n >>= 7
    return out + bytes([n])
def number(data, at):
    n = shift = 0
    while True:
        byte = data[at]; at += 1
        n |= (byte & 127) << shift; shift += 7
        if byte < 128:
            return n, at
def fields(data):
    at = 0
    while at < len(data):
        key, at = number(data, at)
        kind = key & 7
        if kind == 0:
            value, at = number(data, at)
        elif kind == 2:
            size, at = number(data, at); value = data[at:at + size]; at += size
        else:
            size = 8 if kind == 1 else 4
            value = data[at:at + size]; at += size
            yield key >> 3, kind, value
            continue
        yield key >> 3, kind, value
def encode(key, kind, value):
    head = varint(key << 3 | kind)
    return head + (varint(value) if kind == 0 else (varint(len(value)) + value if kind == 2 else value))
def message(items):
    return b"".join(encode(*item) for item in items)
def lean(result):
    """No sections, no rules, and of the metrics their single numbers alone."""
    out = []
    for key, kind, value in fields(result):
        if key in (17, 19):
            continue
        if key == 13:
            value = message(f for f in fields(value) if f[0] != 3)
        out.append((key, kind, value))
    return message(out)
def write(name, wanted):
    start = 4 + SIZE.size + SIZE.unpack_from(raw, 4)[0]
    out, at, place = raw[:start], start, 0
    while at < len(raw):
        size = SIZE.unpack_from(raw, at)[0]; at += 4
        header = list(fields(raw[at:at + size])); at += size
        counts = {key: value for key, kind, value in header if kind == 0}
        entries = []
        for _ in range(counts.get(1, 0) + counts.get(2, 0)):
            size = SIZE.unpack_from(raw, at)[0]; at += 4
            entries.append(raw[at:at + size]); at += size
        sources, results = entries[:counts.get(1, 0)], []
        for entry in entries[counts.get(1, 0):]:
            if place in wanted:
                results.append(lean(entry))
            place += 1
        payload = b"".join(SIZE.pack(len(e)) + e for e in [*sources, *results])
        fresh = {2: len(results), 5: len(payload)}
        head = message((k, t, fresh.get(k, v) if t == 0 else v) for k, t, v in header)
        out += SIZE.pack(len(head)) + head + payload
    open(name, "wb").write(out)
write("before.ncu-rep", {2}); write("after.ncu-rep", {3})
P
quiet() { "$@" > out.txt 2>&1; }
quiet $WB diff --sass before.ncu-rep after.ncu-rep;                say "diff --sass of two reports without machine code" $?
quiet $WB report --out site before.ncu-rep after.ncu-rep;          say "report A B without machine code" $?
quiet $WB report --single-file --out one.html before.ncu-rep after.ncu-rep; say "report --single-file A B without machine code" $?

# --- serve
$WB serve --port 0 --no-watch --out served before.ncu-rep > serve.txt 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null' EXIT
for _ in $(seq 300); do port=$(sed -n 's|^http://127.0.0.1:\([0-9]*\)/.*|\1|p' serve.txt); [ -n "$port" ] && break; sleep 0.1; done
[ -n "$port" ] || { say "serve" 1 "did not start"; exit 1; }
"$WBPY" -P - "$port" <<'P'
import socket, sys
port, bad = int(sys.argv[1]), False
def said(words, end=True):
    out = b""
    with socket.create_connection(("127.0.0.1", port), 15) as one:
        try:
            one.sendall(words)
            while piece := one.recv(65536):
                out += piece
        except OSError:
            pass
    return out
def status(answer):
    return int(answer[9:12]) if answer[:9] == b"HTTP/1.1 " else 0
def get(host, line="GET /index.html HTTP/1.1", more=""):
    return said(f"{line}\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode())
def say(name, holds):
    global bad
    bad |= not holds
    print("ok" if holds else "FAIL", name, flush=True)
own = f"127.0.0.1:{port}"
say("serve answers its own name and address", status(get(own)) == status(get(f"localhost:{port}")) == 200)
for host in ("evil.com", "evil.com@127.0.0.1", "127.0.0.1/evil", f"evil.com@{own}", f"{own}/evil"):
    say(f"serve refuses the host {host.replace(str(port), 'PORT')}", status(get(host)) == 421)
say("serve wants a Host", status(said(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")) == 421)
crowd = [socket.create_connection(("127.0.0.1", port), 15) for _ in range(300)]
say("serve answers a reader beside 300 silent connections", status(get(own)) == 200)
sys.exit(bad)
P
[ $? = 0 ] || failed=1
exit $failed
