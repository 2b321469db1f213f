"""JSON bodies: orders of a shop, each of the same size. Names repeat; numbers, words and identifiers differ."""

import itertools
import random

POOL_ORDERS = 20_000
"""JSON is slow to make, and 20 MB are more than any codec's window spans."""
SMALLEST = 400
_WORDS = tuple(
    "".join(syllables)
    for syllables in itertools.product(("ba", "de", "fi", "go", "ku", "la", "me", "no"), ("ra", "ti", "so"), "nlr")
)


def orders(size: int, at_most: int) -> list[bytes]:
    """Different orders of exactly `size` bytes, at least 400; the same in every process."""
    if size < SMALLEST:
        raise ValueError(f"an order has at least {SMALLEST} bytes")
    rng = random.Random(size)
    return [_order(rng, number, size) for number in range(min(at_most, POOL_ORDERS))]


def _order(rng: random.Random, number: int, size: int) -> bytes:
    first, last, *note = rng.choices(_WORDS, k=2 + size // 5)
    head = (
        f'{{"order_id":"{rng.getrandbits(128):032x}","number":{number},"created_at":{1_790_000_000_000 + number},'
        f'"customer":{{"id":{rng.getrandbits(40)},"name":"{first} {last}","country":"{note[0][:2].upper()}"}},'
        f'"paid":{"true" if number % 9 else "false"},"items":['
    )
    items: list[str] = []
    room = size - len(head) - 140
    while room > 0:
        items.append(_item(rng))
        room -= len(items[-1]) + 1
    start = f'{head}{",".join(items)}],"note":"'
    text = " ".join(note)[: size - len(start) - 2]
    return f'{start}{text}"}}'.encode().ljust(size)


def _item(rng: random.Random) -> str:
    bits, (one, two, three) = rng.getrandbits(64), rng.choices(_WORDS, k=3)
    price, quantity = (bits & 0xFFFF) / 100, 1 + (bits >> 60)
    return f'{{"sku":"{bits >> 16:012x}","title":"{one} {two} {three}","quantity":{quantity},"price":{price}}}'
