// Package ogg reads and writes Opus audio in Ogg files (RFC 3533, RFC 7845), the format of speech
// services and of recordings.
//
// An Ogg file is a sequence of pages, each with a checksum (RFC 3533 §6). A page holds segments of
// packets; a packet may span several pages, and several packets may end on one page. The granule
// position of a page counts samples at 48 kHz up to the end of the last packet that ends on that
// page (RFC 7845 §4). The first packet of a stream is OpusHead, the second OpusTags, and the rest
// is audio (RFC 7845 §3). Streams may follow each other in one file (RFC 3533 §4, "chained").
package ogg

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is found by errors.Is in every error about bytes that are not Ogg Opus. Errors of
// the underlying reader are returned as they are.
var ErrMalformed = errors.New("malformed Ogg Opus")

// Rate is the number of samples per second in all positions and in the pre-skip, whatever the
// sample rate of the input was (RFC 7845 §4).
const Rate = 48000

const (
	headerSize  = 27
	maxSegments = 255
	maxPage     = headerSize + maxSegments + maxSegments*255

	flagContinued = 1 // header_type, RFC 3533 §6: the first segment continues a packet
	flagFirst     = 2 // first page of a stream
	flagLast      = 4 // last page of a stream

	noGranule = -1 // no packet ends on the page (RFC 3533 §6)
)

// page is a parsed page. Its slices point into the reader's buffer.
type page struct {
	flags    byte
	granule  int64
	serial   uint32
	sequence uint32
	lacing   []byte // segment lengths; 255 means that the packet continues in the next segment
	body     []byte
}

// readPage reads the next page into buf, which has room for maxPage bytes. At the end of the file
// it returns io.EOF; within a page, io.ErrUnexpectedEOF.
func readPage(r *bufio.Reader, buf []byte) (page, error) {
	head := buf[:headerSize]
	if _, err := io.ReadFull(r, head); err != nil {
		return page{}, err
	}
	switch {
	case string(head[:4]) != "OggS":
		return page{}, fmt.Errorf("%w: a page begins with %q", ErrMalformed, head[:4])
	case head[4] != 0:
		return page{}, fmt.Errorf("%w: version %d", ErrMalformed, head[4])
	}
	n := headerSize + int(head[26])
	if err := fill(r, buf[headerSize:n]); err != nil {
		return page{}, err
	}
	lacing := buf[headerSize:n]
	size := n
	for _, l := range lacing {
		size += int(l)
	}
	if err := fill(r, buf[n:size]); err != nil {
		return page{}, err
	}
	p := page{
		flags:    head[5],
		granule:  int64(binary.LittleEndian.Uint64(head[6:])),
		serial:   binary.LittleEndian.Uint32(head[14:]),
		sequence: binary.LittleEndian.Uint32(head[18:]),
		lacing:   lacing, body: buf[n:size],
	}
	want := binary.LittleEndian.Uint32(head[22:])
	clear(head[22:26])
	if got := checksum(0, buf[:size]); got != want {
		return page{}, fmt.Errorf("%w: page %d has the checksum %08x instead of %08x", ErrMalformed, p.sequence, got,
			want)
	}
	return p, nil
}

func fill(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) && len(b) > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// append appends the page with its checksum to dst.
func (p *page) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 'O', 'g', 'g', 'S', 0, p.flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.granule))
	dst = binary.LittleEndian.AppendUint32(dst, p.serial)
	dst = binary.LittleEndian.AppendUint32(dst, p.sequence)
	dst = append(dst, 0, 0, 0, 0, byte(len(p.lacing)))
	dst = append(append(dst, p.lacing...), p.body...)
	binary.LittleEndian.PutUint32(dst[at+22:], checksum(0, dst[at:]))
	return dst
}

// crcTable is for CRC-32 with the polynomial 04c11db7, most significant bit first (RFC 3533 §6).
// hash/crc32 supports only least significant bit first.
var crcTable = func() (table [256]uint32) {
	for i := range table {
		r := uint32(i) << 24
		for range 8 {
			if r&(1<<31) != 0 {
				r = r<<1 ^ 0x04c11db7
			} else {
				r <<= 1
			}
		}
		table[i] = r
	}
	return table
}()

func checksum(crc uint32, b []byte) uint32 {
	for _, c := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>24)^c]
	}
	return crc
}
