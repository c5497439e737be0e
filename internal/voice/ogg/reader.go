package ogg

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits on input from untrusted sources.
const (
	// maxPacket bounds the buffer in which a packet is assembled. The longest audio packet is
	// [opus.MaxPacket], 61298 bytes; a comment header may hold a picture.
	maxPacket = 256 << 10
	// maxTags is the maximum number of tags that are kept, and maxTagLength the maximum length of
	// each in bytes. Others are left out.
	maxTags      = 64
	maxTagLength = 4 << 10
)

// Header is the content of OpusHead (RFC 7845 §5.1).
type Header struct {
	Channels  int     // 1 or 2
	PreSkip   int     // samples at [Rate] to drop at the start
	InputRate int     // Hz, before encoding; 0 if unknown
	Gain      float64 // in dB, to be applied by the player
}

// Tag is a user comment of OpusTags, such as TITLE=… (RFC 7845 §5.2).
type Tag struct{ Name, Value string }

// Packet is an Opus packet of a stream.
type Packet struct {
	// Data is valid until the next call of [Reader.Next].
	Data []byte
	// End is the position of the end of the packet if the file has it, which is on the last packet
	// of a page. Otherwise it is -1.
	End int64
	// First is true for the first packet of a stream. [Reader.Header] and [Reader.Tags] have
	// changed.
	First bool
	// Last is true if the file marks the end of the stream here. End may then be less than the sum
	// of the packets; samples beyond it are not to be played (RFC 7845 §4.4).
	Last bool
	// Lost is true if something before this packet is missing in the file.
	Lost bool
}

// Reader reads the Opus packets of a file or a stream as they are received. Chained streams are
// read one after the other; of multiplexed streams, the first one with Opus is read. It is not safe
// for concurrent use.
type Reader struct {
	r      *bufio.Reader
	header Header
	tags   []Tag

	page   page
	pieces []byte // unused part of page.lacing
	body   []byte // unused part of page.body

	expect   int    // kind of the next packet
	started  bool   // a page after the first was read
	serial   uint32 // serial number of the stream
	sequence uint32 // number of the next page
	packet   []byte // assembled so far
	partial  bool   // packet is incomplete
	skip     bool   // the continued packet has lost its beginning
	first    bool   // Packet.First of the next packet
	lost     bool   // Packet.Lost of the next packet
	buf      [maxPage]byte
}

const (
	expectHead = iota // no stream has begun
	expectTags
	expectSound
)

// NewReader returns a Reader of r. It reads up to 64 KiB at a time, and uses a page as soon as it
// is complete. It reads nothing before the first call of [Reader.Next].
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 4<<10)}
}

// Header returns the header of the stream to which the last packet belongs.
func (r *Reader) Header() Header { return r.header }

// Tags returns the tags of the stream to which the last packet belongs.
func (r *Reader) Tags() []Tag { return r.tags }

// Next returns the next audio packet. Its error is io.EOF at the end of the file,
// io.ErrUnexpectedEOF if the file is truncated, and [ErrMalformed] if it is not Ogg Opus. Errors of
// the underlying reader are returned as they are. The Reader cannot be used after an error.
func (r *Reader) Next() (Packet, error) {
	for {
		data, err := r.nextPacket()
		switch {
		case err != nil:
			return Packet{}, err
		case r.expect == expectTags:
			if r.tags, err = parseTags(data); err != nil {
				return Packet{}, err
			}
			r.expect, r.first = expectSound, true
			continue
		case len(data) == 0:
			continue // invalid (RFC 6716 §3.1, R1), but harmless
		}
		p := Packet{Data: data, End: noGranule, First: r.first, Lost: r.lost}
		r.first, r.lost = false, false
		if !endsPacket(r.pieces) { // the last packet that ends on this page
			p.End, p.Last = r.page.granule, r.page.flags&flagLast != 0
		}
		return p, nil
	}
}

// endsPacket reports whether any of these segments ends a packet.
func endsPacket(lacing []byte) bool {
	for _, l := range lacing {
		if l < 255 {
			return true
		}
	}
	return false
}

// nextPacket assembles the next packet of the stream.
func (r *Reader) nextPacket() ([]byte, error) {
	r.packet = r.packet[:0]
	for {
		for len(r.pieces) > 0 {
			n := int(r.pieces[0])
			piece := r.body[:n]
			r.pieces, r.body = r.pieces[1:], r.body[n:]
			if !r.skip {
				if len(r.packet)+n > maxPacket {
					return nil, fmt.Errorf("%w: a packet of more than %d bytes", ErrMalformed, maxPacket)
				}
				r.packet, r.partial = append(r.packet, piece...), true
			}
			if n < 255 {
				whole := !r.skip
				r.partial, r.skip = false, false
				if whole {
					return r.packet, nil
				}
			}
		}
		if err := r.nextPage(); err != nil {
			if errors.Is(err, io.EOF) && (r.partial || r.expect == expectTags) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// nextPage reads the next page of the stream, or the first page of the next stream.
func (r *Reader) nextPage() error {
	for {
		var err error
		if r.page, err = readPage(r.r, r.buf[:]); err != nil {
			return err
		}
		switch {
		case r.page.flags&flagFirst != 0:
			// All multiplexed streams begin before any of them continues (RFC 3533 §4).
			if r.expect != expectHead && !r.started && r.page.serial != r.serial {
				continue
			}
			if entered, err := r.beginStream(); err != nil || entered {
				return err
			}
		case r.expect != expectHead && r.page.serial == r.serial:
			r.usePage()
			return nil
		}
	}
}

// beginStream starts a stream if its first page holds an OpusHead.
func (r *Reader) beginStream() (entered bool, err error) {
	if !strings.HasPrefix(string(r.page.body[:min(8, len(r.page.body))]), "OpusHead") {
		return false, nil
	}
	if r.header, err = parseHeader(r.page.body); err != nil {
		return false, err
	}
	r.expect, r.started = expectTags, false
	r.tags, r.pieces, r.packet = nil, nil, r.packet[:0]
	r.partial, r.skip, r.first, r.lost = false, false, false, false
	r.serial, r.sequence = r.page.serial, r.page.sequence+1
	return true, nil
}

// usePage makes the page's segments the next ones, and detects gaps between it and the page before.
func (r *Reader) usePage() {
	r.started = true
	r.pieces, r.body = r.page.lacing, r.page.body
	continues := r.page.flags&flagContinued != 0
	missing := r.page.sequence != r.sequence
	r.sequence = r.page.sequence + 1
	if missing || r.partial != continues {
		r.lost, r.partial, r.packet = true, false, r.packet[:0]
		r.skip = continues
	}
}

func parseHeader(b []byte) (Header, error) {
	if len(b) < 19 {
		return Header{}, fmt.Errorf("%w: OpusHead of %d bytes", ErrMalformed, len(b))
	}
	h := Header{
		Channels:  int(b[9]),
		PreSkip:   int(binary.LittleEndian.Uint16(b[10:])),
		InputRate: int(binary.LittleEndian.Uint32(b[12:])),
		Gain:      float64(int16(binary.LittleEndian.Uint16(b[16:]))) / 256,
	}
	switch {
	case b[8]&0xf0 != 0:
		return Header{}, fmt.Errorf("%w: OpusHead of version %d", ErrMalformed, b[8])
	case b[18] != 0 || h.Channels < 1 || h.Channels > 2:
		return Header{}, fmt.Errorf("%w: %d channels, mapping family %d; only mono and stereo are supported",
			ErrMalformed, h.Channels, b[18])
	}
	return h, nil
}

// parseTags parses OpusTags (RFC 7845 §5.2). Tags beyond the limits are left out.
func parseTags(b []byte) ([]Tag, error) {
	if !strings.HasPrefix(string(b), "OpusTags") {
		return nil, fmt.Errorf("%w: OpusTags is missing", ErrMalformed)
	}
	_, rest, ok := parseSized(b[8:]) // the vendor string
	if !ok || len(rest) < 4 {
		return nil, fmt.Errorf("%w: OpusTags is cut off", ErrMalformed)
	}
	var tags []Tag
	n := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	for range n {
		var one []byte
		if one, rest, ok = parseSized(rest); !ok {
			return nil, fmt.Errorf("%w: OpusTags is cut off", ErrMalformed)
		}
		name, value, _ := strings.Cut(string(one[:min(len(one), maxTagLength+1)]), "=")
		if len(one) <= maxTagLength && len(tags) < maxTags {
			tags = append(tags, Tag{name, value})
		}
	}
	return tags, nil
}

// parseSized cuts a string that its length precedes off b.
func parseSized(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
