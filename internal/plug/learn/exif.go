package learn

import (
	"bytes"
	"encoding/binary"
)

// withoutPlace returns a JPEG file without what its camera wrote beside the picture: place, time,
// and who made it. Only how the picture is to be turned is kept (Exif 2.32, § 4.5.4: segment APP1;
// § 4.6.4: tag 0x0112). What is no JPEG file is returned as it is.
func withoutPlace(data []byte) []byte {
	if len(data) < 4 || data[0] != 0xff || data[1] != 0xd8 {
		return data
	}
	out := append(make([]byte, 0, len(data)), 0xff, 0xd8)
	turned := byte(0)
	rest := data[2:]
	var kept []byte
	for len(rest) >= 4 && rest[0] == 0xff {
		marker := rest[1]
		if marker == 0xff { // a fill byte
			rest = rest[1:]
			continue
		}
		if marker == 0xda || marker == 0xd9 { // the picture begins
			break
		}
		size := int(binary.BigEndian.Uint16(rest[2:])) + 2
		if size < 4 || size > len(rest) {
			return data
		}
		switch segment := rest[:size]; {
		case marker == 0xe1: // Exif or XMP
			if t := orientation(segment[4:]); t != 0 {
				turned = t
			}
		case marker == 0xed, marker == 0xfe: // Photoshop's, and comments
		default:
			kept = append(kept, segment...)
		}
		rest = rest[size:]
	}
	if turned > 1 {
		out = append(out, 0xff, 0xe1, 0, 34)
		out = append(out, "Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"...)
		out = append(out, turned, 0, 0, 0, 0, 0, 0)
	}
	return append(append(out, kept...), rest...)
}

// orientation returns how a picture is to be turned, 1 to 8; 0 if it is not said.
func orientation(exif []byte) byte {
	tiff, ok := bytes.CutPrefix(exif, []byte("Exif\x00\x00"))
	if !ok || len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 0
	}
	n := int64(order.Uint16(tiff[at:]))
	for i := range n {
		entry := at + 2 + 12*i
		if entry+12 > int64(len(tiff)) {
			return 0
		}
		if order.Uint16(tiff[entry:]) == 0x0112 {
			if v := order.Uint16(tiff[entry+8:]); v >= 1 && v <= 8 {
				return byte(v)
			}
		}
	}
	return 0
}
