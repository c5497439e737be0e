package apkg

import (
	"encoding/binary"
)

var errProto = msgProto.Errorf()

// protoField returns a field of a protobuf message; if it occurs several times, the last one, as
// the protobuf encoding requires (protobuf.dev, "Encoding"). A number is returned as number, bytes
// as data.
func protoField(b []byte, want uint64) (number uint64, data []byte, err error) {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, nil, errProto
		}
		b = b[n:]
		var size uint64
		var value uint64
		switch key & 7 {
		case 0:
			if value, n = binary.Uvarint(b); n <= 0 {
				return 0, nil, errProto
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2:
			if size, n = binary.Uvarint(b); n <= 0 {
				return 0, nil, errProto
			}
			b = b[n:]
		case 5:
			size = 4
		default:
			return 0, nil, errProto
		}
		if size > uint64(len(b)) {
			return 0, nil, errProto
		}
		if key>>3 == want {
			number, data = value, b[:size]
		}
		b = b[size:]
	}
	return number, data, nil
}

func protoNumber(b []byte, field uint64) (uint64, error) {
	n, _, err := protoField(b, field)
	return n, err
}

func protoText(b []byte, field uint64) (string, error) {
	_, data, err := protoField(b, field)
	return string(data), err
}
