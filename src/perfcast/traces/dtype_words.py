"""Element types: the words that traces use for them, as PyTorch's own names, and what these mean."""

from __future__ import annotations

from perfcast.core.dtype import DType

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


#: What operations are described in, of those that have a rule.
_CORE_DTYPES: dict[str, DType] = {
    "float32": DType.FP32,
    "float64": DType.FP64,
    "float16": DType.FP16,
    "bfloat16": DType.BF16,
    "float8_e4m3fn": DType.FP8,
    "float8_e5m2": DType.FP8,
    "int8": DType.INT8,
    "int16": DType.INT16,
    "int32": DType.INT32,
    "int64": DType.INT64,
    "uint8": DType.UINT8,
    "bool": DType.BOOL,
    "complex64": DType.COMPLEX64,
}


def dtype_of(word: str) -> str:
    """PyTorch's name of a type ('float32'); a word that is not known stays as it is."""
    if word in _DTYPES:
        return word
    return next((name for name, (_, words) in _DTYPES.items() if word in words), word)


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a type in PyTorch's words; 0 for one that is not known."""
    return _DTYPES[dtype][0] if dtype in _DTYPES else 0


def core_dtype(word: str) -> DType | None:
    """The type by which operations know it; None for one that they do not."""
    return _CORE_DTYPES.get(dtype_of(word))
