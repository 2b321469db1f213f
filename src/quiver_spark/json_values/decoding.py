"""JSON values as structs of Arrow, by a schema.

Many values at a time are parsed by Arrow, without a Python object per row. Where that fails, the values are halved
until few are left, and those are decoded one by one. A value is accepted if one of the two decoders accepts it alone,
so the result does not depend on its neighbours.
"""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from quiver_spark.json_values.row_decoder import row_decoder

_FEW = 64
_BAD_VALUE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_BAD_BLOCK = (pa.ArrowException, OverflowError)


def decoded(values: pa.Array, fields: pa.Schema) -> pa.StructArray:
    """One struct per value; null where a value is null, is not a JSON object, or has a field of another type.

    Fields that the schema does not name are left out; those that it names and a value lacks are null.
    """
    if not values.null_count:
        return _Decoding(fields).all(values)
    is_there = values.is_valid()
    place = pc.subtract(pc.cumulative_sum(is_there.cast(pa.int64())), 1)
    place = pc.if_else(is_there, place, pa.scalar(None, pa.int64()))
    return _Decoding(fields).all(values.drop_null()).take(place)


class _Decoding:
    def __init__(self, fields: pa.Schema) -> None:
        self._fields = fields
        self._kind = pa.struct(fields)
        self._decode = row_decoder(fields).decode
        self._is_quick = all(_is_quick(field.type) for field in fields)
        self._is_lenient = any(_is_lenient(field.type) for field in fields)

    def all(self, values: pa.Array) -> pa.StructArray:
        if self._is_quick and len(values):
            try:
                return self._block(values)
            except _BAD_BLOCK:
                if len(values) > _FEW:
                    middle = len(values) // 2
                    return pa.concat_arrays([self.all(values.slice(0, middle)), self.all(values.slice(middle))])
        return self._one_by_one(values)

    def _block(self, values: pa.Array) -> pa.StructArray:
        """Raises ArrowException if one of the values does not fit.

        Each value begins with { and ends with }, and `}` is followed by `{` only between two objects. So every value
        gives at least one row, and as many rows as values means one row each.
        """
        values.cast(pa.string())  # raises if it is not UTF-8
        if not pc.all(pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))).as_py():
            raise pa.ArrowInvalid("not an object")
        lines = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        text = pc.binary_join(lines, b"\n")[0].as_buffer()
        table = pa_json.read_json(
            pa.BufferReader(text),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=self._fields, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("a value is not one object")
        columns = [_joined(table.column(field.name), field.type) for field in self._fields]
        return pa.StructArray.from_arrays(columns, fields=list(self._fields))

    def _one_by_one(self, values: pa.Array) -> pa.StructArray:
        rows = [self._row(value) for value in values.to_pylist()]
        try:
            return pa.array(rows, self._kind)
        except _BAD_BLOCK:
            return pa.array([row if self._fits(row) else None for row in rows], self._kind)

    def _row(self, value: bytes) -> dict[str, Any] | None:
        try:
            return self._decode(value)
        except _BAD_VALUE:
            if not self._is_quick or not self._is_lenient:
                return None
        try:
            found: dict[str, Any] = self._block(pa.array([value], pa.binary()))[0].as_py()
        except _BAD_BLOCK:
            return None
        return found

    def _fits(self, row: dict[str, Any] | None) -> bool:
        """Whether Arrow takes it: a decimal may have too many digits, a time may be out of range."""
        try:
            pa.array([row], self._kind)
        except _BAD_BLOCK:
            return False
        return True


def _is_quick(kind: pa.DataType) -> bool:
    """Whether Arrow reads the type from JSON as people write it."""
    if pa.types.is_list(kind):
        return _is_quick(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_quick(each.type) for each in kind)
    return not pa.types.is_date(kind) and not pa.types.is_map(kind)


def _is_lenient(kind: pa.DataType) -> bool:
    """Whether Arrow accepts more values of the type than the other decoder: NaN, and times without a zone."""
    if pa.types.is_list(kind):
        return _is_lenient(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_is_lenient(each.type) for each in kind)
    return bool(pa.types.is_floating(kind) or pa.types.is_timestamp(kind))


def _joined(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    found = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return found if found.type == kind else found.cast(kind)
