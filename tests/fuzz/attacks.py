"""What the server is sent. Each attack makes one move per call, from the randomness it is given, and raises `Finding`
when the answer is one that no input may cause."""

import socket
import struct

import grpc

from messages import hostile, mutated

SERVICE = "panelboard.v1.BreakerService"
# An answer to a single request that takes longer is a finding: nothing that a client sends may stall the server.
ANSWER_WITHIN = 10.0
# How long a socket waits for the answer to garbage, which may well be none.
GARBAGE_WITHIN = 0.05
# What a handler may say to any message. UNKNOWN and UNAVAILABLE come from a handler that panicked, or a server that is gone.
EXPECTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.OUT_OF_RANGE,
}


class Finding(Exception):
    """The server gave an answer, or none, that no input may cause."""


class Target:
    """The server's two ports, and its methods with the class of message that each takes."""

    def __init__(self, panel, stubs):
        self.grpc_address, self.http_address = address(panel.grpc), address(panel.http)
        unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(panel.grpc, options=unlimited)
        methods = stubs.breaker_service.DESCRIPTOR.services_by_name["BreakerService"].methods
        self.methods = [(each.name, each.input_type._concrete_class) for each in methods]

    def send(self, method, encoded, decodes=False):
        """Sends bytes as a request; a stream is read up to its first two messages."""
        path, raw = f"/{SERVICE}/{method}", lambda encoded: encoded
        try:
            if method == "Watch":
                stream = self.channel.unary_stream(path, raw, raw)(encoded, timeout=ANSWER_WITHIN)
                for _ in zip(range(2), stream):
                    pass
                stream.cancel()
            else:
                self.channel.unary_unary(path, raw, raw)(encoded, timeout=ANSWER_WITHIN)
        except grpc.RpcError as error:
            undecodable = error.code() is grpc.StatusCode.INTERNAL and not decodes
            if error.code() not in EXPECTED and not undecodable:
                raise Finding(f"{method} answered {error.code()}: {error.details()} to {shortened(encoded)}") from error


def random_bytes(random, target):
    """Bytes that mean nothing."""
    method, _ = random.choice(target.methods)
    target.send(method, random.randbytes(random.choice([0, 1, 2, 5, 20, 100, 1000])))


def hostile_values(random, target):
    """Messages that decode, with values that no honest client sends: never INTERNAL."""
    method, kind = random.choice(target.methods)
    target.send(method, hostile(random, kind).SerializeToString(), decodes=True)


def mutated_messages(random, target):
    """Valid messages after a few accidents."""
    method, kind = random.choice(target.methods)
    target.send(method, mutated(random, hostile(random, kind).SerializeToString()))


def oversize(random, target):
    """More than any limit: 100,000 entries, or more bytes than a message may have."""
    name, kind = next((name, kind) for name, kind in target.methods if name == "Report")
    if random.random() < 0.5:
        message = kind()
        message.entries.add(breaker="fuzz/exact", failures=1)
        target.send(name, message.SerializeToString() * 100_000, decodes=True)
    else:
        target.send(random.choice(target.methods)[0], random.randbytes(random.randrange(4 << 20, 6 << 20)))


def http2_frames(random, target):
    """A proper greeting, then frames of any type, with lengths that may lie."""
    payload = PREFACE + frame(4, 0, 0, b"")
    for _ in range(random.randrange(1, 12)):
        body = random.randbytes(random.choice([0, 1, 4, 5, 8, 64, 300]))
        stream = random.choice([0, 1, 1, 2, 3, 2**31 - 1])
        lie = random.choice([None, None, None, 0, 1, 2**14, 2**24 - 1])
        payload += frame(random.randrange(12), random.randrange(256), stream, body, length=lie)
    exchange(target.grpc_address, payload)


def grpc_frames(random, target):
    """A call by hand, right but for a header or two and the framing of its message."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{random.choice(target.methods)[0]}",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    for name in random.sample(sorted(STRANGE_HEADERS), random.randrange(3)):
        headers[name] = random.choice(STRANGE_HEADERS[name])
        if headers[name] is None:
            del headers[name]
    body = random.randbytes(random.randrange(40))
    claimed = random.choice([len(body), len(body), 0, len(body) + 1, 2**31, 2**32 - 1])
    message = struct.pack(">BI", random.choice([0, 0, 0, 1, 2, 255]), claimed) + body
    call = frame(1, 4, 1, header_block(headers)) + frame(0, random.choice([0, 1]), 1, message)
    exchange(target.grpc_address, PREFACE + frame(4, 0, 0, b"") + call)


# None: without that header.
STRANGE_HEADERS = {
    ":method": [None, "GET", "CONNECT", ""],
    ":scheme": [None, "https", "file"],
    ":path": [None, f"/{SERVICE}/", f"/{SERVICE}/Nothing", "/", "*", "", "/x" * 500],
    ":authority": [None, "", "x" * 2000],
    "content-type": [None, "application/grpc+json", "text/html", ""],
    "te": [None, "gzip"],
    "grpc-timeout": ["1S", "0n", "1n", "99999999H", "-1S", "1", "x", "999999999999999999S"],
    "grpc-encoding": ["identity", "gzip", "nonsense"],
    "grpc-accept-encoding": ["", "gzip,,,", "x" * 1000],
    "x-bin": ["!!!not base64!!!", "=" * 500],
}


def http1_garbage(random, target):
    """Requests to the HTTP port, and to the gRPC port where they do not belong, well-formed and not."""
    path = random.choice(["/metrics", "/healthz", "/readyz", "/breakers", "/breakers/", "/breakers/fuzz/tripped", "/"])
    path += random.choice(["", "?", "?a=" + "b" * 5000, "/%00", "/%ff%fe", "/../../etc/passwd", "/" + "x" * 10_000, "%2e%2e/"])
    method = random.choice(["GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "G\x00T", "X" * 300])
    accept = random.choice(["*/*", "application/json", "text/plain;q=x", ",,,;;;", "\x01"])
    length = random.choice(["", "", "Content-Length: 5\r\n", "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n"])
    many = "".join(f"X-{number}: {'y' * 100}\r\n" for number in range(random.choice([0, 0, 3, 300])))
    request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n{length}{many}\r\n".encode("latin-1")
    choice = random.randrange(4)
    if choice == 0:
        request = random.randbytes(random.randrange(1, 400))
    elif choice == 1:
        request = mutated(random, request)
    elif choice == 2:
        request *= random.randrange(1, 20)
    exchange(random.choice([target.http_address, target.http_address, target.grpc_address]), request)


# How many moves of each attack in one round; the heavy ones now and then.
ATTACKS = {
    random_bytes: 20,
    hostile_values: 40,
    mutated_messages: 40,
    oversize: 1,
    http2_frames: 5,
    grpc_frames: 5,
    http1_garbage: 10,
}

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, body, length=None):
    """An HTTP/2 frame, with its true length or another."""
    size = len(body) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream & 0x7FFFFFFF) + body


def header_block(headers):
    """HPACK without any compression: each header as a literal that is not to be remembered."""
    return b"".join(b"\x00" + literal(name) + literal(value) for name, value in headers.items())


def literal(value):
    encoded = value.encode()
    if len(encoded) < 127:
        return bytes([len(encoded)]) + encoded
    rest, prefix = len(encoded) - 127, bytearray([127])
    while rest >= 128:
        prefix.append(rest % 128 + 128)
        rest //= 128
    prefix.append(rest)
    return bytes(prefix) + encoded


def exchange(place, payload):
    """Sends bytes on a connection of their own and takes what comes. Only a refused connection is a finding: how the
    server ends one that talks nonsense is its own affair."""
    try:
        connection = socket.create_connection(place, timeout=ANSWER_WITHIN)
    except OSError as error:
        raise Finding(f"{place} does not accept connections any more: {error}") from error
    with connection:
        try:
            connection.sendall(payload)
            connection.settimeout(GARBAGE_WITHIN)
            connection.recv(65536)
        except OSError:
            pass


def address(place):
    host, port = place.rsplit(":", 1)
    return host, int(port)


def shortened(encoded):
    return encoded.hex() if len(encoded) <= 512 else f"{encoded[:512].hex()}… ({len(encoded)} bytes)"
