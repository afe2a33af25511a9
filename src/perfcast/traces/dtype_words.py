"""Element types: the words that traces use for them, as PyTorch's own names, and their sizes."""

from __future__ import annotations

#: Per type: bytes of an element, and the words of C++ and of ``ScalarType`` for it.
_DTYPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "float32": (4, ("float", "Float")),
    "float64": (8, ("double", "Double")),
    "float16": (2, ("c10::Half", "Half")),
    "bfloat16": (2, ("c10::BFloat16", "BFloat16")),
    "float8_e4m3fn": (1, ("c10::Float8_e4m3fn", "Float8_e4m3fn")),
    "float8_e5m2": (1, ("c10::Float8_e5m2", "Float8_e5m2")),
    "float8_e4m3fnuz": (1, ("c10::Float8_e4m3fnuz", "Float8_e4m3fnuz")),
    "float8_e5m2fnuz": (1, ("c10::Float8_e5m2fnuz", "Float8_e5m2fnuz")),
    "int8": (1, ("signed char", "Char")),
    "int16": (2, ("short", "short int", "Short")),
    "int32": (4, ("int", "Int")),
    "int64": (8, ("long", "long int", "long long", "Long")),
    "uint8": (1, ("unsigned char", "Byte")),
    "uint16": (2, ("unsigned short", "UInt16")),
    "uint32": (4, ("unsigned int", "UInt32")),
    "uint64": (8, ("unsigned long", "UInt64")),
    "bool": (1, ("bool", "Bool")),
    "complex64": (8, ("c10::complex<float>", "ComplexFloat")),
    "complex128": (16, ("c10::complex<double>", "ComplexDouble")),
    "": (0, ("nullptr (uninitialized)",)),
}


def dtype_of(word: str) -> str:
    """PyTorch's name of a type ('float32'); a word that is not known stays as it is."""
    if word in _DTYPES:
        return word
    return next((name for name, (_, words) in _DTYPES.items() if word in words), word)


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a type in PyTorch's words; 0 for one that is not known."""
    return _DTYPES[dtype][0] if dtype in _DTYPES else 0
