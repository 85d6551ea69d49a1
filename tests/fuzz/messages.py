"""Hostile messages: well-formed ones with absurd values, made from the contract's own descriptors, and broken ones."""

from google.protobuf.descriptor import FieldDescriptor as Field

# Names the server's policies know, names they match, and what is no name at all. `quiet` in the policies is never named
# here: what it holds at the end is what nobody sent.
NAMES = ["fuzz/tripped", "fuzz/exact", "fuzz/made/by-pattern", "nobody/knows-this"]
NO_NAMES = ["", " ", "-x", "a b", "é", "a\x00b", "a\nb", "../../etc", "x" * 128, "x" * 129, "x" * 10_000, "**", "*/*", "%s%n"]
INTEGERS = [0, 1, 2, 19, 20, 100, 599, 600, 1_000_000, 1_000_001, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1]
RANGES = {
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
}
DEEPEST = 4


def hostile(random, kind, depth=0):
    """A message of this class that decodes, with values that no honest client sends mixed into likely ones."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if random.random() < 0.35:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(how_many(random, 40)):
                getattr(message, field.name)[text(random)] = number(random, field.message_type.fields_by_name["value"])
        elif field.message_type is not None:
            if depth < DEEPEST:
                fill_messages(random, message, field, depth)
        elif repeated(field):
            getattr(message, field.name).extend(scalar(random, field) for _ in range(how_many(random, 1100)))
        else:
            setattr(message, field.name, scalar(random, field))
    return message


def fill_messages(random, message, field, depth):
    kind = field.message_type._concrete_class
    if repeated(field):
        getattr(message, field.name).extend(hostile(random, kind, depth + 1) for _ in range(how_many(random, 120)))
    else:
        getattr(message, field.name).CopyFrom(hostile(random, kind, depth + 1))


def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == Field.LABEL_REPEATED


def how_many(random, over_the_limit):
    """A few as a rule, and now and then more than the server takes."""
    return over_the_limit if random.random() < 0.01 else random.randrange(4)


def scalar(random, field):
    if field.cpp_type == Field.CPPTYPE_STRING:
        return random.randbytes(random.randrange(64)) if field.type == Field.TYPE_BYTES else text(random)
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return random.random() < 0.5
    if field.cpp_type == Field.CPPTYPE_ENUM:
        return random.choice([0, 1, 2, 3, 9999, -1])
    return number(random, field)


def number(random, field):
    low, high = RANGES[field.cpp_type]
    chosen = random.choice(INTEGERS) if random.random() < 0.7 else random.getrandbits(random.randrange(1, 65))
    if random.random() < 0.2:
        chosen = -chosen
    return min(max(chosen, low), high)


def text(random):
    chance = random.random()
    if chance < 0.5:
        return random.choice(NAMES)
    # New each time, for what the server makes as it is named: breakers, instances, sessions, causes.
    return f"fuzz/made/{random.getrandbits(32):x}" if chance < 0.7 else random.choice(NO_NAMES)


def mutated(random, encoded):
    """The bytes after a few accidents: flips, cuts, insertions, repetitions, splices."""
    broken = bytearray(encoded)
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(broken) + 1)
        end = min(len(broken), at + random.randrange(1, 16))
        accident = random.randrange(6)
        if accident == 0 and at < len(broken):
            broken[at] ^= 1 << random.randrange(8)
        elif accident == 1:
            del broken[at:end]
        elif accident == 2:
            broken[at:at] = random.randbytes(random.randrange(1, 16))
        elif accident == 3:
            broken[at:at] = broken[at:end] * random.randrange(1, 8)
        elif accident == 4:
            del broken[at:]
        else:
            # An overlong varint, or a length that promises more than there is.
            broken[at:at] = random.choice([b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 200])
    return bytes(broken)
