"""Templates of sentences that are shown after they were made: errors, notices, progress.

`workbench.language.told` knows a sentence again by the template that it was made of, so nothing is
marked where one is made: what an error, a notice or a line of progress is made of is found here,
in the calls that take one. A name stands for what it is assigned in its function, a constant for
its text, a call for what the functions of that name return, and what is joined for each of its
parts. Each line is a template of its own.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from string import Formatter

from workbench.errors import WorkbenchError
from workbench.language import told, using

#: Call -> which of its arguments are sentences, by place or by name.
_CALLS: dict[str, tuple[int | str, ...]] = {
    "say": (0,),
    "doing": (0,),
    "slowly": (0,),
    "noted": (0,),
    "told": (0,),
    "Notice": (1, "message"),
    "Missing": (0, "reason"),
    "Gap": ("why",),
    "warnings": (0,),
    "doubts": (0,),
    "notes": (0,),
    "Suspect": (0, 1, "hint", "words"),
    "Blame": (1, 2, "words", "hint"),
    "Equipment": (0, 2, 3, 4, "what", "detail", "remedy", "without"),
    "EquipmentFacts": ("what", "detail", "remedy", "without"),
    # What makes an error of a place and these.
    "error": (0, 1, "what", "hint"),
    "fail": (1, 2, "what", "hint"),
    "_NoValueError": (0, 1),
    # Its first is the key.
    "DescriptorError": (1, 2, "message", "hint"),
    # Why a file is damaged.
    **dict.fromkeys(("ValueError", "WireError"), (0,)),
    # Why a gate judges nothing, and what became of a choice of a tuning.
    **dict.fromkeys(("inconclusive", "unchanged", "broken"), (2,)),
    "Turns": ("silence",),
    "_Moved": ("text", 2),
    "_SourceText": ("told", 2),
    "replace": ("why",),
    "_not_run": (1,),
    "check_study_free": (2,),
    "_leave": (1,),
    # A job's, a browser's and click's errors.
    "Fault": (0, 1, "message", "hint"),
    "_TurnedAwayError": (1,),
    "BadParameter": (0,),
    # What a compiler, the driver and limits say.
    "_SourceError": (1,),
    "StoppedError": (0, 1),
    "DriverError": (0,),
    **dict.fromkeys(("ByteLimit", "TotalLimit"), (0,)),
    # The worker's, which become an error.
    "WorkerError": (1, "during"),
    "Failure": ("message", "during"),
}
#: Of these what makes an error, or a part of one.
_LIKE_ERRORS = ("error", "fail", "_NoValueError", "WorkerError", "Suspect", "Blame")
#: Functions that return sentences: one, a pair of what and hint, or a list.
_RETURN = ("_table_fault", "_surely_cut", "refusal", "_unlisted", "fitting", "_word")
#: What an error takes.
_ERROR = (0, 1, "message", "hint")
#: Variants of one text, at most: what depends on more conditions is left as it is.
_MOST = 24
#: Words that are spelled out in place of one field, at most.
_CHOICES = 6
#: Letters of a template that are its own, at least: others know nothing again.
_LETTERS = 5
#: Functions that are looked into from a text, one within the other.
_DEPTH = 3

#: What is no sentence: code that a hint shows.
_CODE = re.compile(r"#include|^\S+ = |^\[\w+\] and \w+ = |^<!--")

#: Three words and more of an English sentence; a name has capitals, digits or underscores.
_ENGLISH = re.compile(r"\b[a-z][a-z'’]+(?: [a-z][a-z'’-]*){2,}")

#: A piece of a text, or the expression of a field.
_Piece = str | ast.expr


def name_of(call: ast.Call) -> str:
    """What a call calls; of the object before it its last name where it is what words go into."""
    match call.func:
        case ast.Attribute(
            value=ast.Attribute(attr="warnings" | "doubts" | "notes" as kind)
            | ast.Name(id="notes" | "doubts" as kind),
            attr="add" | "append" | "extend",
        ):
            return kind
        case ast.Call(func=ast.Name(id="type")):  # another one of its kind
            return "WorkbenchError"
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


#: Nodes of a file, each with the function that it stands in.
Nodes = list[tuple[ast.FunctionDef | None, ast.AST]]


def nodes_of(text: str) -> Nodes:
    """All nodes of a source but for its names and contexts, which nobody looks for."""
    out: Nodes = []
    left: Nodes = [(None, ast.parse(text))]
    while left:
        function, node = left.pop()
        out.append((function, node))
        within = node if isinstance(node, ast.FunctionDef) else function
        for each in node.__dict__.values():
            for one in each if isinstance(each, list) else (each,):
                if isinstance(one, ast.AST) and not isinstance(one, ast.Name | ast.Load):
                    left.append((within, one))
    return out


class Templates:
    """All templates of a package.

    Args:
        files: File -> its nodes.
    """

    def __init__(self, files: Mapping[str, Nodes]) -> None:
        self._files = files
        self._functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        self._constants: dict[str, set[str]] = defaultdict(set)
        #: Tables of a module: what they hold.
        self._tables: dict[str, list[ast.expr]] = defaultdict(list)
        self._tuples: dict[str, list[ast.Tuple]] = defaultdict(list)
        self._callers: dict[str, list[tuple[ast.FunctionDef | None, ast.Call]]] = defaultdict(list)
        #: What a function assigns to a name; to none: what it returns.
        self._values: dict[tuple[ast.FunctionDef, str], list[ast.expr]] = defaultdict(list)
        #: What a function yields.
        self._yielded: dict[ast.FunctionDef, list[ast.Yield | ast.YieldFrom]] = defaultdict(list)
        #: What a function puts into a list.
        self._parts: dict[tuple[ast.FunctionDef, str], list[ast.expr]] = defaultdict(list)
        #: What objects and classes are given of a name, and where.
        self._attributes: dict[str, list[tuple[ast.expr, ast.FunctionDef | None]]] = defaultdict(
            list
        )
        self._known: dict[tuple[ast.expr, int], list[list[_Piece]]] = {}
        bases: dict[str, list[str]] = {}
        for function, node in itertools.chain(*files.values()):
            match node:
                case ast.ClassDef(name=name):
                    bases[name] = [getattr(base, "id", "") for base in node.bases]
                case ast.FunctionDef(name=name):
                    self._functions[name].append(node)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
                ) if function is None and name.isupper():
                    self._constants[name].add(text)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=held))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=held))
                ) if function is None and name.isupper():
                    self._tables[name] += held
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple() as value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Tuple() as value)
                ) if function is None and name.isupper():
                    self._tuples[name].append(value)
                case (
                    ast.Assign(targets=[ast.Attribute(attr=name)], value=value)
                    | ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value)
                ) if function is None or isinstance(node.targets[0], ast.Attribute):
                    self._attributes[name].append((value, function))
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if (
                    function is not None
                ):
                    for place, each in enumerate(names):
                        if isinstance(each, ast.Name):
                            part = ast.Subscript(value, ast.Constant(place))
                            self._values[function, each.id].append(part)
                case ast.For(target=ast.Tuple(elts=names), iter=ast.Name() as row):
                    for place, each in enumerate(names):
                        if isinstance(each, ast.Name) and function is not None:
                            part = ast.Subscript(ast.Starred(row), ast.Constant(place))
                            self._values[function, each.id].append(part)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ) if function is not None:
                    self._values[function, name].append(value)
                    if isinstance(value, ast.List):
                        self._parts[function, name] += value.elts
                case ast.Return(value=ast.expr() as value) if function is not None:
                    self._values[function, ""].append(value)
                case ast.Yield(value=ast.expr()) | ast.YieldFrom() if function is not None:
                    self._yielded[function].append(node)
                case ast.Call():
                    self._callers[name_of(node)].append((function, node))
                    match node:
                        case ast.Call(
                            func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[each]
                        ) if function is not None:
                            self._parts[function, name].append(each)
        errors = {"WorkbenchError", "EmulatorError"}
        for _again in range(3):
            errors |= {name for name, parents in bases.items() if errors & {*parents}}
        self._errors = errors | {*_LIKE_ERRORS}
        self._calls = dict.fromkeys(errors, _ERROR) | _CALLS

    def all(self) -> Iterator[tuple[str, str, int]]:
        """Each template, its file and line."""
        for file, function, call in self._said():
            if name_of(call) == "template":
                yield str(ast.literal_eval(call.args[0])), file, call.lineno
            for argument in self._given(call):
                for template in self._templates(argument, function, _DEPTH):
                    yield template, file, call.lineno
        for file, nodes in self._files.items():
            for _within, made in nodes:
                if isinstance(made, ast.FunctionDef) and made.name in _RETURN:
                    for text in self._returns(made):
                        for template in self._templates(text, made, _DEPTH):
                            yield template, file, made.lineno

    def _returns(self, function: ast.FunctionDef) -> Iterator[ast.expr]:
        """The texts that a function returns, each alone."""
        for value in self._values[function, ""]:
            yield from value.elts if isinstance(value, ast.Tuple | ast.List) else (value,)
        for (within, _name), parts in self._parts.items():
            yield from parts if within is function else ()

    def unknown(self) -> Iterator[tuple[str, str]]:
        """What errors and hints are given of which no sentence is found: the file, the code."""
        for file, function, call in self._said():
            for argument in self._given(call) if name_of(call) in self._errors else ():
                found = any(True for _ in self._templates(argument, function, _DEPTH))
                match argument:
                    case ast.Constant() | ast.Attribute(attr="message" | "hint" | "words"):
                        continue
                    case ast.Call() if name_of(argument) in ("_", "template"):
                        continue
                    case ast.Call(func=ast.Attribute(value=ast.Call() as inner)) if name_of(
                        inner
                    ) in ("_", "template"):
                        continue
                if not found:
                    yield file, ast.unparse(argument)

    def _said(self) -> Iterator[tuple[str, ast.FunctionDef | None, ast.Call]]:
        for file, nodes in self._files.items():
            for function, call in nodes:
                if isinstance(call, ast.Call):
                    yield file, function, call

    def _given(self, call: ast.Call) -> list[ast.expr]:
        """The sentences that a call is given."""
        places = self._calls.get(name_of(call), ())
        by_place = [
            call.args[place]
            for place in places
            if isinstance(place, int) and place < len(call.args)
        ]
        return by_place + [each.value for each in call.keywords if each.arg in places]

    def _templates(
        self, node: ast.expr, function: ast.FunctionDef | None, depth: int
    ) -> Iterator[str]:
        """Those of a text, and those of what its fields are filled with."""
        for pieces in self._variants(node, function, depth):
            # What fills a field is told where it is more than a name.
            for template in _template(pieces).split("\n"):
                if _own(template) and (depth == _DEPTH or " " in template.strip()):
                    yield template
            for field in pieces if depth else ():
                if isinstance(field, ast.Name | ast.Call) and field is not node:
                    yield from self._templates(field, function, depth - 1)

    def _variants(
        self, node: ast.expr, function: ast.FunctionDef | None, depth: int
    ) -> list[list[_Piece]]:
        """What a text may be, each as its pieces."""
        if (node, depth) not in self._known:
            self._known[node, depth] = [[node]]  # of what hangs on itself
            self._known[node, depth] = self._made(node, function, depth)
        return self._known[node, depth]

    def _made(
        self, node: ast.expr, function: ast.FunctionDef | None, depth: int
    ) -> list[list[_Piece]]:
        match node:
            case (
                ast.Constant(value=str(text))
                | ast.Call(func=ast.Name(id="template"), args=[ast.Constant(value=str(text))])
            ):
                return [[text]]
            case ast.JoinedStr(values=values):
                return self._product([self._part(each, function, depth) for each in values], node)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                sides = [self._variants(each, function, depth) for each in (left, right)]
                return self._product(sides, node)
            case ast.GeneratorExp(elt=each):
                return self._variants(each, function, depth)
            case ast.IfExp(body=body, orelse=other):
                return [
                    *self._variants(body, function, depth),
                    *self._variants(other, function, depth),
                ]
            case ast.BoolOp(op=ast.Or(), values=values):
                return [each for one in values for each in self._variants(one, function, depth)]
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in self._constants:
                return [[text] for text in sorted(self._constants[name])]
            case ast.Name(id=name) if function is not None and depth:
                found = self._assigned(name, function, depth - 1)
                return found or self._passed(name, function, depth - 1) or [[node]]
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"),
                args=[ast.Name() | ast.Tuple() as joined],
            ) if ("\n" in between or between == " ") and function is not None and depth:
                names = self._parts[function, getattr(joined, "id", "")]
                parts = joined.elts if isinstance(joined, ast.Tuple) else names
                return [each for one in parts for each in self._variants(one, function, depth)]
            case ast.Subscript() | ast.Call(func=ast.Attribute(attr="get")):
                held = [*self._held(node, function, _DEPTH)]
                found = [each for one in held for each in self._variants(*one, depth)]
                return [each for each in found if each != [""]] or [[node]]
            case ast.Call(func=ast.Attribute(value=value, attr="rstrip" | "removesuffix")):
                texts = self._variants(value, function, depth)
                return [_bare(each) for each in texts]
            case ast.Call(
                func=ast.Attribute(value=value, attr="replace"),
                args=[ast.Constant(value=str(old)), ast.Constant(value=str(new))],
            ):
                texts = self._variants(value, function, depth)
                return [
                    [e.replace(old, new) if isinstance(e, str) else e for e in each]
                    for each in texts
                ]
            case ast.Starred(value=value):
                held = [*self._held(value, function, _DEPTH)]
                tuples = [(one.elts, at) for one, at in held if isinstance(one, ast.Tuple)]
                each_of = [(each, at) for elements, at in tuples for each in elements]
                return [v for each in each_of for v in self._variants(*each, depth)] or [[node]]
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "format_map")) if depth:
                texts = self._variants(value, function, depth)
                return [
                    _parsed(one) for one, *more in texts if not more and isinstance(one, str)
                ] or [[node]]
            case ast.Call() if depth and name_of(node) not in self._calls:
                return [*self._returned(name_of(node), depth - 1), [node]]
            case ast.Attribute(attr=name) if depth:
                given = [self._variants(*each, depth - 1) for each in self._attributes[name]]
                return [*itertools.chain(*given), [node]]
        return [[node]]

    def _part(
        self, node: ast.expr, function: ast.FunctionDef | None, depth: int
    ) -> list[list[_Piece]]:
        """A piece of an f-string: a field stays one, but for choices, constants and options."""
        if not isinstance(node, ast.FormattedValue):
            return self._variants(node, function, depth)
        value = node.value
        if node.conversion >= 0:  # a name in quotation marks
            return [[value]]
        name = getattr(value, "id", "") or getattr(value, "attr", "")
        constant = name in self._constants
        if isinstance(value, ast.IfExp) or constant:
            return self._variants(value, function, 0)
        if isinstance(value, ast.Name | ast.Call | ast.Attribute) and depth:
            # A word alone is told by nobody, and what may be nothing is found by nobody.
            found = [each for each in self._variants(value, function, depth) if each != [value]]
            said = [each for each in found if each != [""]]
            words = all(isinstance(piece, str) for each in found for piece in each)
            option = len(said) < len(found) and all(_own(_template(each)) for each in said)
            if said and (words or option) and len(found) <= _CHOICES:
                return found
        return [[value]]

    def _held(
        self, node: ast.expr, function: ast.FunctionDef | None, depth: int
    ) -> Iterator[tuple[ast.expr, ast.FunctionDef | None]]:
        """What may be meant by a place in a table or in a tuple, and where it is written."""
        match node if depth else None:
            case ast.Subscript(value=value, slice=ast.Constant(value=int(place))):
                for each, within in self._held(value, function, depth - 1):
                    if isinstance(each, ast.Tuple) and place < len(each.elts):
                        yield each.elts[place], within
            case (
                ast.Subscript(value=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"))
            ) if name in self._tables:
                for each in self._tables[name]:
                    # `dict.fromkeys` says one thing of several keys.
                    one = each.args[1] if isinstance(each, ast.Call) and each.args[1:] else each
                    yield from ([(one, None)] if one is each else self._held(one, None, depth - 1))
                for other in node.args[1:] if isinstance(node, ast.Call) else ():
                    yield from self._held(other, function, depth - 1)
            case ast.Starred(value=ast.Name(id=name)):
                rows = self._tuples.get(name, ())
                yield from ((each, None) for row in rows for each in row.elts)
            case ast.IfExp(body=body, orelse=other):
                yield from (
                    *self._held(body, function, depth - 1),
                    *self._held(other, function, depth - 1),
                )
            case ast.Tuple():
                yield node, function
            case ast.Name(id=name) if name in self._tuples:
                yield from ((each, None) for each in self._tuples[name])
            case ast.Name(id=name) if function is not None:
                for value in self._values[function, name]:
                    if value is not node and not isinstance(value, ast.Name):
                        yield from self._held(value, function, depth - 1)
            case ast.Call(func=ast.Name(id="next"), args=[ast.Call() as call, *_]):
                yield from self._yields(name_of(call), _DEPTH)
            case ast.Call() as call:
                for made in self._functions.get(name_of(call), ()):
                    for value in self._values[made, ""]:
                        if isinstance(value, ast.Tuple):
                            yield value, made

    def _yields(self, name: str, depth: int) -> Iterator[tuple[ast.expr, ast.FunctionDef]]:
        """What a function yields of its own, and from others."""
        for made in self._functions.get(name, ()) if depth else ():
            for node in self._yielded[made]:
                if isinstance(node, ast.Yield) and node.value is not None:
                    yield node.value, made
                for call in ast.walk(node) if isinstance(node, ast.YieldFrom) else ():
                    if isinstance(call, ast.Call):
                        yield from self._yields(name_of(call), depth - 1)

    def _product(self, parts: list[list[list[_Piece]]], node: ast.expr) -> list[list[_Piece]]:
        found = [
            list(itertools.chain(*pieces))
            for pieces in itertools.islice(itertools.product(*parts), _MOST + 1)
        ]
        return found if len(found) <= _MOST else [[node]]

    def _assigned(self, name: str, function: ast.FunctionDef, depth: int) -> list[list[_Piece]]:
        # Of a tuple that nobody finds, the place in it says nothing.
        return [
            each
            for value in self._values[function, name]
            for each in self._variants(value, function, depth)
            if each != [value] or hasattr(value, "lineno")
        ]

    def _passed(self, name: str, function: ast.FunctionDef, depth: int) -> list[list[_Piece]]:
        """What callers give for a parameter."""
        names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
        if name not in names:
            return []
        place = names.index(name) - (names[0] in ("self", "cls"))
        found: list[list[_Piece]] = []
        for within, call in self._callers[function.name]:
            given = [each.value for each in call.keywords if each.arg == name]
            if 0 <= place < min(len(call.args), len(function.args.args)):
                given.append(call.args[place])
            for value in given:
                found += self._variants(value, within, depth)
        return found

    def _returned(self, name: str, depth: int) -> list[list[_Piece]]:
        return [
            each
            for function in self._functions.get(name, ())
            for value in self._values[function, ""]
            for each in self._variants(value, function, depth)
        ]


def _parsed(form: str) -> list[_Piece]:
    """The pieces of a text that is a template already."""
    pieces: list[_Piece] = []
    for literal, name, *__ in Formatter().parse(form):
        pieces += [literal, *([ast.Attribute(ast.Name("words"), name)] if name else [])]
    return pieces


def _bare(pieces: list[_Piece]) -> list[_Piece]:
    """The pieces without the blanks at their end."""
    *others, last = [each for each in pieces if each != ""] or [""]
    return [*others, last.rstrip() if isinstance(last, str) else last]


def english(error: WorkbenchError) -> list[str]:
    """What stays English of an error and its hint in Chinese; code in backticks may."""
    return english_of(error.message, error.hint)


def english_of(*texts: str) -> list[str]:
    """What stays English of texts in Chinese; code in backticks may."""
    with using("zh"):
        heard = "\n".join(told(text) for text in texts)
    return english_words(heard)


def english_words(heard: str) -> list[str]:
    """Three English words and more in a row, outside of backticks."""
    return _ENGLISH.findall(re.sub(r"`[^`]*`", "", heard))


def _template(pieces: list[_Piece]) -> str:
    """The pieces as a template with named fields, in each of its lines."""
    text, used = "", set[str]()
    for piece in pieces:
        if isinstance(piece, str):
            text += piece.replace("{", "{{").replace("}", "}}")
            continue
        name = _field(piece)
        name = next(
            n
            for n in itertools.chain([name], map(f"{name}{{}}".format, itertools.count(2)))
            if n not in used
        )
        used.add(name)
        text += f"{{{name}}}"
    return "" if _CODE.search(text) else text


def _own(template: str) -> bool:
    """Whether a sentence can be known again by it."""
    own = "".join(each[0] for each in Formatter().parse(template))
    return sum(map(str.isalpha, own)) >= _LETTERS


def _field(node: ast.expr) -> str:
    """A name for the value of an expression: the last word in it that says what it is."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower() or "it"
        case ast.Call(args=[first, *_]):
            return _field(first) if not isinstance(first, ast.Constant) else name_of(node)
        case ast.Call(func=ast.Attribute(value=value)):
            return _field(value)
        case (
            ast.Subscript(value=value) | ast.Starred(value=value) | ast.FormattedValue(value=value)
        ):
            return _field(value)
    words = re.findall(r"[a-z_]\w*", ast.unparse(node))
    return words[0].strip("_") or "it" if words else "it"
