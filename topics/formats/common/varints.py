"""Whole numbers of seven bits a byte, the lowest first, as Avro and Protobuf have them."""


class MalformedError(ValueError):
    """Bytes that the schema does not fit."""


def long(v: bytes, p: int) -> tuple[int, int]:
    """The whole number at p, and where it ends."""
    b = v[p]
    p += 1
    n, shift = b & 127, 7
    while b > 127:
        if shift > 63:
            raise MalformedError("a whole number of more than ten bytes")
        b = v[p]
        p += 1
        n |= (b & 127) << shift
        shift += 7
    return (n >> 1) ^ -(n & 1), p


def whole(n: int) -> bytes:
    """A whole number of 64 bits as Avro writes it."""
    return varint((n << 1) ^ (n >> 63))


def varint(n: int) -> bytes:
    """A number that is not below 0, seven bits a byte, the lowest first."""
    if n < 128:
        return n.to_bytes(1, "big")
    made = bytearray()
    while n > 127:
        made.append(n & 127 | 128)
        n >>= 7
    made.append(n)
    return bytes(made)
