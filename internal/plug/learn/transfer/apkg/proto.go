package apkg

import (
	"encoding/binary"
	"math"
)

var errProto = msgProto.Errorf()

// protoValue is a field of a protobuf message.
type protoValue struct {
	field  uint64
	number uint64 // of a varint
	data   []byte // its bytes, without the length of bytes
	raw    []byte // all of it, with the key
	wire   uint64 // wire type
}

// Wire types (protobuf.dev, "Encoding").
const (
	wireVarint = 0
	wireLong   = 1
	wireBytes  = 2
	wireFloat  = 5
)

// protoFields calls each for the fields of a message, in order.
func protoFields(b []byte, each func(protoValue) error) error {
	for len(b) > 0 {
		whole := b
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return errProto
		}
		b = b[n:]
		v := protoValue{field: key >> 3, wire: key & 7}
		var size uint64
		switch v.wire {
		case wireVarint:
			if v.number, n = binary.Uvarint(b); n <= 0 {
				return errProto
			}
			size = uint64(n)
		case wireLong:
			size = 8
		case wireBytes:
			if size, n = binary.Uvarint(b); n <= 0 {
				return errProto
			}
			b = b[n:]
		case wireFloat:
			size = 4
		default:
			return errProto
		}
		if size > uint64(len(b)) {
			return errProto
		}
		v.data, b = b[:size], b[size:]
		v.raw = whole[:len(whole)-len(b)]
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

// protoField returns a field of a message; if it occurs several times, the last one, as the
// protobuf encoding requires. A number is returned as number, bytes as data.
func protoField(b []byte, want uint64) (number uint64, data []byte, err error) {
	err = protoFields(b, func(v protoValue) error {
		if v.field == want {
			number, data = v.number, v.data
		}
		return nil
	})
	return number, data, err
}

// protoFloats reads a repeated float, packed or not.
func protoFloats(v protoValue) []float32 {
	if v.wire != wireBytes && v.wire != wireFloat {
		return nil
	}
	var list []float32
	for data := v.data; len(data) >= 4; data = data[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return list
}

func appendVarint(b []byte, field, number uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3|wireVarint), number)
}

func appendBytes[T string | []byte](b []byte, field uint64, data T) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, field<<3|wireBytes), uint64(len(data)))
	return append(b, data...)
}

func appendFloat(b []byte, field uint64, f float32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, field<<3|wireFloat), math.Float32bits(f))
}

func appendFloats(b []byte, field uint64, list []float32) []byte {
	if len(list) == 0 {
		return b
	}
	var packed []byte
	for _, f := range list {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(f))
	}
	return appendBytes(b, field, packed)
}

// uvarint reads a number; a damaged one ends the data.
func uvarint(b []byte) (number uint64, size int) {
	if number, size = binary.Uvarint(b); size <= 0 {
		return 0, len(b)
	}
	return number, size
}

func appendUvarint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }
