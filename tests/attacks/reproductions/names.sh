#!/usr/bin/env bash
# Control characters, forged lines and commands, CSV formulas, the policy of pages. Started by run.sh: WB.
. "$(dirname "${BASH_SOURCE[0]}")/head.sh"
export NO_COLOR=1
# No control but tab and newline, nothing that hides or reorders, on standard output and error.
plain() {
    python3 -c '
import sys, unicodedata
text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
bad = {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
cmd = [l for l in text.split("\n") if l.strip().startswith("::") or "##[" in l]
sys.exit(bool(bad or cmd or "--forged" in sys.argv and any(l.startswith("error: forged") for l in text.split("\n"))))' "$@"
}
EVIL=$'\x1b]0;owned\x07\xd8\x9c\xe2\x80\xae'
mkdir p && cd p && $WB init . --study demo >/dev/null 2>&1
V=$(ls kernels/demo/v0*.cu | head -1)

$WB show "$EVIL" 2>&1 | plain; say "an argument in an error" $?
$WB show v0 "$EVIL" 2>&1 | plain; say "an extra argument (click's usage error)" $?
$WB show $'nope\nerror: forged\n  hint: run this' 2>&1 | plain --forged; say "a forged line in an error" $?
$WB show $'nope\n::error file=a,line=1::forged' 2>&1 | plain; say "a forged command in an error" $?
$WB --json-errors show "$EVIL" 2>&1 | plain; say "--json-errors" $?
$WB --json-errors show $'\xff' 2>&1 | python3 -c 'import json,sys; json.load(sys.stdin)' 2>/dev/null; say "--json-errors of bytes that are no UTF-8" $?
$WB capture x -- "./$EVIL" 2>&1 | plain; say "capture of a program's name" $?

python3 - "$V" <<'PY'
import json, re, sys
path = sys.argv[1]
text = open(path).read()
evil = json.dumps("\u001b]0;t\u0007\u061c\u2028::error::x\u202e ##[error]y")
text = re.sub(r'title\s*= ".*"', lambda _: f"title = {evil}", text)
open(path, "w").write(text)
PY
for format in table json csv markdown; do
    $WB list --format $format 2>&1 | plain; say "a title in list --format $format" $?
done
$WB new v1 --from v0 2>&1 | plain; say "a title in new" $?
mkdir "kernels/$EVIL" && cp kernels/demo/* "kernels/$EVIL/"
echo '# changed' >> "kernels/$EVIL/study.py"
$WB list 2>&1 | plain; say "a folder's name in a note" $?
rm -rf "kernels/$EVIL"
printf '/*---\ntitle = "x"\n"\\u001b]0;t\\u0007" = 1\n---*/\n' > kernels/demo/v7_x.cu
$WB list 2>&1 | plain; say "a front-matter key in a note" $?
rm kernels/demo/v7_x.cu

python3 - "$V" <<'PY'
import re, sys
path = sys.argv[1]
text = open(path).read()
open(path, "w").write(re.sub(r'title\s*= ".*"', 'title = "=HYPERLINK(1)"', text))
PY
$WB list --format csv 2>/dev/null | python3 -c '
import csv, sys
rows = list(csv.reader(sys.stdin))
bad = [c for r in rows for c in r if c[:1] in ("=", "+", "-", "@")]
sys.exit(bool(bad) or not any("HYPERLINK" in c for r in rows for c in r))'; say "a formula in CSV" $?

$WB report --out site >/dev/null 2>&1
python3 - <<'PY'
import glob, sys
pages = glob.glob("site/**/*.html", recursive=True)
lacking = [p for p in pages if 'http-equiv="Content-Security-Policy"' not in open(p).read()]
sys.exit(not pages or bool(lacking))
PY
say "the policy in written pages" $?

(timeout 40 $WB serve --port 0 >../serve.out 2>&1 &) ; for _ in $(seq 60); do grep -q http ../serve.out && break; sleep 0.5; done
sleep 1; cp "$V" "kernels/demo/a$EVIL.cuh"; for _ in $(seq 40); do grep -q changed ../serve.out && break; sleep 0.5; done
grep -q changed ../serve.out && plain < ../serve.out; say "changed: of serve" $?

mkdir -p "kernels/loud"; rm -f kernels/demo/a*; cp kernels/demo/v0* kernels/demo/study.py kernels/loud/
python3 - <<'PY'
import glob, re
for path in glob.glob("kernels/loud/v*.cu"):
    text = open(path).read()
    text = re.sub(r"(__global__[^{]*\{)", r'\1\n  if (threadIdx.x + blockIdx.x == 0) printf("\\033]0;t\\007\\n::error::x\\n");', text, count=1)
    text = re.sub(r"(---\s*\*/)", r"\1\n#include <cstdio>", text, count=1)
    open(path, "w").write(text)
PY
$WB verify loud/v0 --engine emulator > ../loud.out 2>&1; grep -q "0;t" ../loud.out && plain < ../loud.out; say "printf of a kernel in the emulator" $?
exit $failed
