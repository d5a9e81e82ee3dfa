#!/usr/bin/env bash
# msgspec encodes subclasses of containers, and refuses subclasses of scalars.
#
# Guess: an encoder that writes a subclass of dict as an object writes a subclass of str as a
#   string, as the json module of Python does for both.
# Seen with msgspec 0.22.0 and NumPy 2.4.2 on Python 3.11: json.encode, msgpack.encode and
#   to_builtins raise TypeError, "Encoding objects of type X is unsupported", for subclasses of str,
#   int, float and bytes, numpy.float64 and numpy.str_ among them. Subclasses of list, dict, tuple
#   and set are encoded, and a subclass of str is as the key of a dict. msgspec.convert accepts a
#   subclass of str as a str and returns it as it is: a record that has passed validation may then
#   not be written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet msgspec==0.22.0 numpy==2.4.2
cat > "$folder/run.py" <<'PYTHON'
import collections
import json

import msgspec
import numpy

kinds = {base: type(base.__name__.title(), (base,), {}) for base in (str, int, float, bytes, list, dict, tuple, set)}
values = [
    *(kinds[str]("a"), kinds[int](3), kinds[float](1.5), kinds[bytes](b"a")),
    *(numpy.float64(1.5), numpy.str_("a")),
    *(kinds[list]([1]), kinds[dict](a=1), kinds[tuple]((1,)), kinds[set]({1}), collections.OrderedDict(a=1)),
]
for value in values:
    found = []
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        try:
            encode(value)
            found.append("encoded")
        except TypeError as err:
            assert "is unsupported" in str(err), err
            found.append("refused")
    print(f"{type(value).__module__}.{type(value).__name__}: {' '.join(found)}")
text = kinds[str]("k")
print("as a key:", msgspec.json.encode({text: 1}).decode())
print("converted to str:", type(msgspec.convert(text, str)).__name__)
print("json of Python:", json.dumps([text, kinds[int](3), numpy.float64(1.5)]))
PYTHON
"$folder/env/bin/python" "$folder/run.py" | tee "$folder/found"
diff "$folder/found" - <<'EXPECTED'
__main__.Str: refused refused refused
__main__.Int: refused refused refused
__main__.Float: refused refused refused
__main__.Bytes: refused refused refused
numpy.float64: refused refused refused
numpy.str_: refused refused refused
__main__.List: encoded encoded encoded
__main__.Dict: encoded encoded encoded
__main__.Tuple: encoded encoded encoded
__main__.Set: encoded encoded encoded
collections.OrderedDict: encoded encoded encoded
as a key: {"k":1}
converted to str: Str
json of Python: ["k", 3, 1.5]
EXPECTED
