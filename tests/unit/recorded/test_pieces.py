"""Every token's piece of text, joined the whole, whatever the decoder does."""

from gtpo_lit.recorded import TokenPieces
from gtpo_lit.recorded.pieces import _rest_on_last

BYTES = {1: b"a", 2: b" b", 3: b"\xf0\x9f", 4: b"\x98\x80", 5: b"\xff", 6: b"\xe4", 7: b"\xb8\xad"}


def from_bytes(ids):
    return b"".join(BYTES[number] for number in ids).decode("utf-8", errors="replace")


def test_tokens_that_are_whole_words():
    asked = []

    def decode(ids):
        asked.append(list(ids))
        return from_bytes(ids)

    pieces = TokenPieces(decode)
    assert pieces([1, 2, 2, 1]) == ("a", " b", " b", "a")
    assert pieces([2, 1]) == (" b", "a")
    # A token is decoded alone once, however often it comes.
    assert sorted(asked) == [[1], [1, 2, 2, 1], [2], [2, 1]]
    assert pieces([]) == ()


def test_a_character_of_several_tokens_stands_at_its_last():
    assert TokenPieces(from_bytes)([1, 3, 4, 2]) == ("a", "", "\U0001f600", " b")
    assert TokenPieces(from_bytes)([6, 7, 6, 7]) == ("", "\u4e2d", "", "\u4e2d")


def test_a_response_cut_inside_a_character_keeps_what_the_decoder_shows():
    assert TokenPieces(from_bytes)([1, 3]) == ("a", "\ufffd")
    for ids in ([5, 1, 5], [3, 3, 4, 1], [5] * 40 + [1], [3, 1, 4, 2]):
        pieces = TokenPieces(from_bytes)(ids)
        assert "".join(pieces) == from_bytes(ids)
        assert len(pieces) == len(ids)


def test_a_decoder_that_drops_the_first_space():
    def decode(ids):
        return from_bytes(ids).removeprefix(" ")

    assert TokenPieces(decode)([2, 2, 1]) == ("b", " b", "a")


def test_pieces_that_do_not_join_give_the_rest_to_the_last():
    assert _rest_on_last(["a", "x", "c"], "abc") == ["a", "", "bc"]
    assert _rest_on_last(["a", "b"], "abc") == ["a", "bc"]
    assert _rest_on_last([], "") == []
