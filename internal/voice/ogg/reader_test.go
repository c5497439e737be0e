package ogg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"patchbay/internal/voice/opus"
)

// all reads a file to its end.
func all(r io.Reader) (packets []Packet, heads []Header, err error) {
	o := NewReader(r)
	for {
		p, err := o.Next()
		if err != nil {
			return packets, heads, err
		}
		if p.First {
			heads = append(heads, o.Header())
		}
		p.Data = bytes.Clone(p.Data)
		packets = append(packets, p)
	}
}

// fromOpusenc is 0.7 s at 24 kHz, as opusenc wrote it.
func fromOpusenc(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/opusenc.opus")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// board is a recording of a voice board: a short word in packets of 60 ms.
func board(t testing.TB) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/08_yes.opk")
	if err != nil {
		t.Fatal(err)
	}
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	return packets
}

func TestReadOfOpusenc(t *testing.T) {
	r := NewReader(iotest.OneByteReader(bytes.NewReader(fromOpusenc(t))))
	var n int
	var last Packet
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.First != (n == 0) || p.Lost || opus.Duration(p.Data) != 20*time.Millisecond {
			t.Errorf("packet %d: %+v, %s", n, p, opus.Duration(p.Data))
		}
		last, n = p, n+1
	}
	h := r.Header()
	if h.Channels != 1 || h.InputRate != 24000 || h.PreSkip != 312 || h.Gain != 0 {
		t.Errorf("head %+v", h)
	}
	for _, want := range []Tag{{"TITLE", "sweep"}, {"ARTIST", "a tone"}} {
		if !slices.ContainsFunc(r.Tags(), func(t Tag) bool {
			return strings.EqualFold(t.Name, want.Name) &&
				t.Value == want.Value
		}) {
			t.Errorf("no %v in %v", want, r.Tags())
		}
	}
	if n != 36 || !last.Last || last.End != Rate*7/10+312 {
		t.Errorf("%d packets, the last ends at %d, last %t", n, last.End, last.Last)
	}
}

// pages builds a file from pages whose packets are given. It sets the other fields itself.
type pages struct {
	b   []byte
	seq map[uint32]uint32 // by serial number
}

func (p *pages) add(serial uint32, flags byte, granule int64, lacing []byte, body string) *pages {
	if p.seq == nil || flags&flagFirst != 0 {
		p.restart(serial)
	}
	pg := page{flags: flags, granule: granule, serial: serial, sequence: p.seq[serial], lacing: lacing,
		body: []byte(body)}
	p.b = pg.append(p.b)
	p.seq[serial]++
	return p
}

func (p *pages) restart(serial uint32) {
	if p.seq == nil {
		p.seq = map[uint32]uint32{}
	}
	p.seq[serial] = 0
}

const (
	headMono = "OpusHead\x01\x01\x38\x01\x80\x3e\x00\x00\x00\x00\x00"
	noTags   = "OpusTags\x02\x00\x00\x00me\x00\x00\x00\x00"
)

func (p *pages) open(serial uint32) *pages {
	return p.add(serial, flagFirst, 0, []byte{byte(len(headMono))}, headMono).add(serial, 0, 0,
		[]byte{byte(len(noTags))}, noTags)
}

func TestReader(t *testing.T) {
	long := "\x48" + strings.Repeat("x", 599) // 255 + 255 + 90
	for name, c := range map[string]struct {
		file    []byte
		packets []string
		err     error
	}{
		"nothing":    {nil, nil, io.EOF},
		"no packets": {new(pages).open(1).b, nil, io.EOF},
		"head only":  {new(pages).add(1, flagFirst, 0, []byte{19}, headMono).b, nil, io.ErrUnexpectedEOF},
		"two on a page": {new(pages).open(1).add(1, flagLast, 1920, []byte{2, 3}, "\x48a\x48bc").b,
			[]string{"\x48a", "\x48bc"}, io.EOF},
		"end without a flag": {new(pages).open(1).add(1, 0, 960, []byte{2}, "\x48a").b, []string{"\x48a"}, io.EOF},
		"one over two pages": {new(pages).open(1).add(1, 0, -1, []byte{255, 255}, long[:510]).add(1,
			flagContinued|flagLast, 960, []byte{90, 2}, long[510:]+"\x48a").b, []string{long, "\x48a"}, io.EOF},
		"one over three": {new(pages).open(1).add(1, 0, -1, []byte{255}, long[:255]).add(1, flagContinued, -1,
			[]byte{255}, long[255:510]).add(1, flagContinued, 960, []byte{90}, long[510:]).b, []string{long}, io.EOF},
		"255 exactly": {new(pages).open(1).add(1, 0, 960, []byte{255, 0}, long[:255]).b, []string{long[:255]},
			io.EOF},
		"ends inside": {new(pages).open(1).add(1, 0, -1, []byte{255}, long[:255]).b, nil, io.ErrUnexpectedEOF},
		"chained": {new(pages).open(1).add(1, flagLast, 960, []byte{2}, "\x48a").open(2).add(2, flagLast,
			960, []byte{2}, "\x48b").b, []string{"\x48a", "\x48b"}, io.EOF},
		"chained, not ended": {new(pages).open(1).add(1, 0, 960, []byte{2}, "\x48a").open(2).add(2, 0, 960, []byte{2},
			"\x48b").b, []string{"\x48a", "\x48b"}, io.EOF},
		"chained, same number, cut off": {new(pages).open(1).add(1, 0, 960, []byte{2, 255},
			"\x48a"+long[:255]).open(1).add(1, 0, 960, []byte{2}, "\x48b").b,
			[]string{"\x48a", "\x48b"}, io.EOF},
		"other codec beside": {new(pages).add(9, flagFirst, 0, []byte{6}, "\x80theor").open(1).add(9, 0, 0, []byte{1},
			"?").add(1, 0, 960, []byte{2}, "\x48a").b, []string{"\x48a"}, io.EOF},
		"two of Opus beside": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono).add(2, flagFirst, 0, []byte{19},
			headMono).add(2, 0, 0, []byte{18}, noTags).add(1, 0, 0, []byte{18}, noTags).
			add(2, 0, 960, []byte{2}, "\x48b").add(1, 0, 960, []byte{2}, "\x48a").b, []string{"\x48a"}, io.EOF},
		"packets of nothing": {new(pages).open(1).add(1, 0, 960, []byte{0, 2, 0}, "\x48a").b, []string{"\x48a"},
			io.EOF},
		"not Ogg":         {[]byte(strings.Repeat("RIFF", 20)), nil, ErrMalformed},
		"another version": {append([]byte("OggS\x01"), make([]byte, 30)...), nil, ErrMalformed},
		"sound for tags": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono).add(1, 0, 960, []byte{2},
			"\x48a").b, nil, ErrMalformed},
		"tags cut off": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono).add(1, 0, 0, []byte{17},
			noTags[:17]).b, nil, ErrMalformed},
		"tags beyond": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono).add(1, 0, 0, []byte{18},
			noTags[:14]+"\xff\xff\xff\xff").b, nil, ErrMalformed},
		"short head": {new(pages).add(1, flagFirst, 0, []byte{18}, headMono[:18]).b, nil, ErrMalformed},
		"head of version 16": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono[:8]+"\x10"+headMono[9:]).b, nil,
			ErrMalformed},
		"three channels": {new(pages).add(1, flagFirst, 0, []byte{19}, headMono[:9]+"\x03"+headMono[10:]).b, nil,
			ErrMalformed},
		"surround":          {new(pages).add(1, flagFirst, 0, []byte{19}, headMono[:18]+"\x01").b, nil, ErrMalformed},
		"too long a packet": {endless(), nil, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			packets, heads, err := all(bytes.NewReader(c.file))
			var got []string
			for i, p := range packets {
				got = append(got, string(p.Data))
				if p.Lost {
					t.Errorf("something is missing before packet %d", i)
				}
			}
			if !errors.Is(err, c.err) || !slices.Equal(got, c.packets) {
				t.Fatalf("%q, %v", got, err)
			}
			if strings.HasPrefix(name, "chained") && len(heads) != 2 {
				t.Errorf("%d streams", len(heads))
			}
		})
	}
}

// endless is a packet that never ends.
func endless() []byte {
	p := new(pages).open(1)
	for i := range 5 {
		p.add(1, byte(min(i, 1)*flagContinued), -1, bytes.Repeat([]byte{255}, 255), strings.Repeat("x", 255*255))
	}
	return p.b
}

// TestEndless reads streams that begin again and again and hold nothing.
func TestEndless(t *testing.T) {
	one := new(pages).add(1, flagFirst, 0, []byte{19}, headMono).b
	if _, _, err := all(bytes.NewReader(bytes.Repeat(one, 100_000))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestPositions(t *testing.T) {
	file := new(pages).open(1).add(1, 0, 1920, []byte{2, 2, 255}, "\x48a\x48b\x48"+strings.Repeat("x", 254)).add(1,
		flagContinued|flagLast, 3000, []byte{0, 2}, "\x48d").b
	packets, _, err := all(bytes.NewReader(file))
	if !errors.Is(err, io.EOF) || len(packets) != 4 {
		t.Fatalf("%d packets, %v", len(packets), err)
	}
	for i, want := range []struct {
		end         int64
		first, last bool
	}{{-1, true, false}, {1920, false, false}, {-1, false, false}, {3000, false, true}} {
		if p := packets[i]; p.End != want.end || p.Last != want.last || p.First != want.first {
			t.Errorf("packet %d: %+v", i, p)
		}
	}
}

// TestLostPage removes pages from the middle.
func TestLostPage(t *testing.T) {
	long := "\x48" + strings.Repeat("x", 299)
	whole := func(without int) []byte {
		p := new(pages)
		p.open(1)
		for i, add := range []func(){
			func() { p.add(1, 0, 960, []byte{2, 255}, "\x48a"+long[:255]) },
			func() { p.add(1, flagContinued, 1920, []byte{45, 255}, long[255:]+long[:255]) },
			func() { p.add(1, flagContinued, 2880, []byte{45, 2}, long[255:]+"\x48b") },
		} {
			if i == without {
				p.seq[1]++
				continue
			}
			add()
		}
		return p.b
	}
	for without, want := range map[int][]string{
		-1: {"\x48a", long, long, "\x48b"}, 0: {long, "\x48b"}, 1: {"\x48a", "\x48b"},
	} {
		packets, _, err := all(bytes.NewReader(whole(without)))
		if !errors.Is(err, io.EOF) || len(packets) != len(want) {
			t.Fatalf("without page %d: %d packets, %v", without, len(packets), err)
		}
		lost := 0
		for i, p := range packets {
			if string(p.Data) != want[i] {
				t.Errorf("without page %d: packet %d is %q", without, i, p.Data)
			}
			if p.Lost {
				lost++
			}
		}
		if (without >= 0) != (lost == 1) {
			t.Errorf("without page %d: %d packets say that something is lost", without, lost)
		}
	}
}

// TestDamage changes every byte, and truncates at every byte: the reader never panics, never
// returns a packet that was not in the file, and always returns an error.
func TestDamage(t *testing.T) {
	file := fromOpusenc(t)
	want, _, err := all(bytes.NewReader(file))
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	check := func(what string, i int, b []byte) bool {
		got, _, err := all(bytes.NewReader(b))
		for j, p := range got {
			if j >= len(want) || !bytes.Equal(p.Data, want[j].Data) {
				t.Fatalf("%s %d: packet %d is %x", what, i, j, p.Data)
			}
		}
		return err == io.EOF && len(got) == len(want)
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x10
		if check("byte", i, damaged) {
			t.Errorf("byte %d was changed and nobody noticed", i)
		}
		if check("cut", i, file[:i]) {
			t.Errorf("nobody noticed the cut at %d", i)
		}
	}
}

func TestTagsAreLimited(t *testing.T) {
	tags := "OpusTags\x00\x00\x00\x00"
	n := 3 * maxTags
	tags += string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	for i := range n {
		value := "A=b"
		if i == 0 {
			value = "PICTURE=" + strings.Repeat("x", maxTagLength)
		}
		tags += string(binary.LittleEndian.AppendUint32(nil, uint32(len(value)))) + value
	}
	got, err := parseTags([]byte(tags))
	if err != nil || len(got) != maxTags || got[0] != (Tag{"A", "b"}) {
		t.Errorf("%d tags, %v", len(got), err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(fromOpusenc(f))
	f.Add(new(pages).open(1).add(1, 0, -1, []byte{255}, strings.Repeat("x", 255)).add(1, flagContinued, 960,
		[]byte{2, 2}, "\x48a\x48").b)
	f.Add(new(pages).open(1).add(1, flagLast, 960, []byte{2}, "\x48a").open(2).add(2, flagLast, 960, []byte{2},
		"\x48b").b)
	f.Fuzz(func(t *testing.T, b []byte) {
		// Checksums are corrected, because the reader stops at a wrong one.
		b = bytes.Clone(b)
		for rest := b; len(rest) >= headerSize && string(rest[:4]) == "OggS"; {
			n := headerSize + int(rest[26])
			for _, l := range rest[headerSize:min(n, len(rest))] {
				n += int(l)
			}
			if n > len(rest) {
				break
			}
			clear(rest[22:26])
			binary.LittleEndian.PutUint32(rest[22:], checksum(0, rest[:n]))
			rest = rest[n:]
		}
		packets, heads, err := all(bytes.NewReader(b))
		switch {
		case err == nil:
			t.Fatal("no end")
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrMalformed):
			t.Fatal(err)
		}
		sum := 0
		for _, p := range packets {
			if len(p.Data) == 0 {
				t.Fatal("an empty packet")
			}
			sum += len(p.Data)
		}
		if sum > len(b) || len(heads) > len(packets) {
			t.Fatalf("%d bytes out of %d, %d streams", sum, len(b), len(heads))
		}
	})
}
