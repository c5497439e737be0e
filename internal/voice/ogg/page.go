// Package ogg reads and writes Opus sound in Ogg files (RFC 3533, RFC 7845): what
// speech services send, and what recordings are kept in.
//
// An Ogg file is a row of pages, each with a checksum. A page holds pieces of
// packets; a packet may go over several pages, and a page may end several packets.
// Positions ("granules") count samples at 48 kHz and belong to the end of the last
// packet that ends on a page. The first packet of a stream is OpusHead, the second
// OpusTags; then comes sound. Streams may follow each other in one file.
package ogg

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is found by errors.Is in every error about bytes that are not Ogg
// Opus. Errors of the reader below are passed on as they are.
var ErrMalformed = errors.New("malformed Ogg Opus")

// Rate is how many samples a second has in all positions and in the pre-skip,
// whatever rate the sound had before.
const Rate = 48000

const (
	headerSize  = 27
	maxSegments = 255
	maxPage     = headerSize + maxSegments + maxSegments*255

	flagContinued = 1 // the first piece belongs to the packet before
	flagFirst     = 2 // of a stream
	flagLast      = 4 // of a stream

	noGranule = -1 // no packet ends on the page
)

// page is one page, taken apart. Its slices point into the reader's buffer.
type page struct {
	flags    byte
	granule  int64
	serial   uint32
	sequence uint32
	lacing   []byte // lengths of the pieces; 255 means that the packet goes on
	body     []byte
}

// readPage reads the next page into buf, which has room for maxPage. At the end of
// the file it returns io.EOF; inside of a page, io.ErrUnexpectedEOF.
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

// append writes the page to dst, with its checksum.
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

// crcTable is for CRC-32 with the polynomial 04c11db7, highest bit first; hash/crc32
// has only the lowest first.
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
