package opus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// recording reads the packets of a voice board from a file: repeatedly two bytes of length and a
// packet.
func recording(t testing.TB, name string) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	if len(packets) == 0 || len(b) != 0 {
		t.Fatalf("%s: %d packets and %d bytes", name, len(packets), len(b))
	}
	return packets
}

// TestTOC checks the table of RFC 6716 §3.1.
func TestTOC(t *testing.T) {
	silk, hybrid, celt := []int{100, 200, 400, 600}, []int{100, 200}, []int{25, 50, 100, 200}
	table := []struct {
		mode     Mode
		tenthsMS []int
	}{
		{SILK, silk}, {SILK, silk}, {SILK, silk}, {Hybrid, hybrid}, {Hybrid, hybrid},
		{CELT, celt}, {CELT, celt}, {CELT, celt}, {CELT, celt},
	}
	config := 0
	for _, row := range table {
		for _, tenths := range row.tenthsMS {
			for low := range 8 {
				toc := TOC(config<<3 | low)
				if toc.Config() != config || toc.Mode() != row.mode ||
					toc.FrameDuration() != time.Duration(tenths)*100*time.Microsecond || toc.Code() != low%4 {
					t.Errorf("%#02x: %d %s %s %d", byte(toc), toc.Config(), toc.Mode(), toc.FrameDuration(), toc.Code())
				}
			}
			config++
		}
	}
	if config != 32 {
		t.Fatalf("%d configs", config)
	}
}

func TestParse(t *testing.T) {
	big := bytes.Repeat([]byte{7}, MaxFrame)
	for name, c := range map[string]struct {
		packet  []byte
		frames  []string // nil: malformed
		padding int
	}{
		"empty":              {nil, nil, 0},
		"silence":            {[]byte{0x58}, []string{""}, 0},
		"one frame":          {[]byte("\x58abc"), []string{"abc"}, 0},
		"the longest frame":  {append([]byte{0x58}, big...), []string{string(big)}, 0},
		"too long a frame":   {append(append([]byte{0x58}, big...), 7), nil, 0},
		"two equal":          {[]byte("\x49abcd"), []string{"ab", "cd"}, 0},
		"two equal, none":    {[]byte("\x49"), []string{"", ""}, 0},
		"two equal, odd":     {[]byte("\x49abc"), nil, 0},
		"two":                {[]byte("\x4a\x01abc"), []string{"a", "bc"}, 0},
		"two, second empty":  {[]byte("\x4a\x03abc"), []string{"abc", ""}, 0},
		"two, no length":     {[]byte("\x4a"), nil, 0},
		"two, half a length": {[]byte("\x4a\xfc"), nil, 0},
		"two, too long":      {[]byte("\x4a\x04abc"), nil, 0},
		"two, length of two bytes": {append([]byte{0x4a, 0xfd, 0x01}, append(bytes.Repeat([]byte{1}, 257), 2)...),
			[]string{string(bytes.Repeat([]byte{1}, 257)), "\x02"}, 0},
		"counted, no count":          {[]byte("\x4b"), nil, 0},
		"counted, zero":              {[]byte("\x4b\x00"), nil, 0},
		"counted, equal":             {[]byte("\x4b\x03abcdef"), []string{"ab", "cd", "ef"}, 0},
		"counted, not equal":         {[]byte("\x4b\x03abcde"), nil, 0},
		"counted, own lengths":       {[]byte("\x4b\x83\x01\x00abc"), []string{"a", "", "bc"}, 0},
		"counted, too long":          {[]byte("\x4b\x83\x01\x03abc"), nil, 0},
		"counted, lengths missing":   {[]byte("\x4b\x83\x01"), nil, 0},
		"counted, 120 ms":            {[]byte("\x4b\x06abcdef"), []string{"a", "b", "c", "d", "e", "f"}, 0},
		"counted, 140 ms":            {[]byte("\x4b\x07abcdefg"), nil, 0},
		"counted, 48 of 2.5 ms":      {append([]byte{0x83, 48}, make([]byte, 48)...), make48Frames("\x00"), 0},
		"padded":                     {[]byte("\x4b\x41\x02abcXX"), []string{"abc"}, 2},
		"padded, own lengths":        {[]byte("\x4b\xc2\x01\x01abX"), []string{"a", "b"}, 1},
		"padded with 254 and 1":      {append([]byte("\x4b\x41\xff\x01a"), make([]byte, 255)...), []string{"a"}, 255},
		"padded, no length":          {[]byte("\x4b\x41"), nil, 0},
		"padded, length not ended":   {[]byte("\x4b\x41\xff"), nil, 0},
		"padded with more than all":  {[]byte("\x4b\x41\x04abc"), nil, 0},
		"a packet beyond all limits": {make([]byte, MaxPacket+1), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p Packet
			err := p.Parse(c.packet)
			if c.frames == nil {
				if !errors.Is(err, ErrMalformed) || p.Count() != 0 {
					t.Fatalf("%v, %d frames", err, p.Count())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Count() != len(c.frames) || p.Padding != c.padding ||
				p.Duration() != time.Duration(len(c.frames))*TOC(c.packet[0]).FrameDuration() {
				t.Fatalf("%d frames, %d padding, %s", p.Count(), p.Padding, p.Duration())
			}
			if d := Duration(c.packet); d != p.Duration() {
				t.Errorf("Duration says %s", d)
			}
			for i, f := range c.frames {
				if string(p.Frame(i)) != f {
					t.Errorf("frame %d is %q", i, p.Frame(i))
				}
			}
		})
	}
}

func make48Frames(s string) (frames []string) {
	for range 48 {
		frames = append(frames, s)
	}
	return frames
}

// TestBoard parses packets that an encoder with a board's settings made.
func TestBoard(t *testing.T) {
	silent := 0
	packets := recording(t, "02_please_take_a_photo.opk")
	for i, b := range packets {
		var p Packet
		if err := p.Parse(b); err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if p.TOC != 0x58 || p.Duration() != 60*time.Millisecond || p.Count() != 1 { // SILK, 8 kHz wide, mono
			t.Errorf("packet %d: %#02x, %s", i, byte(p.TOC), p.Duration())
		}
		if (len(b) == 1) != p.IsSilent() {
			t.Errorf("packet %d: %d bytes, silent %t", i, len(b), p.IsSilent())
		}
		if len(b) < 20 && !p.IsQuiet() || len(b) > 100 && p.IsQuiet() { // the voice fades in between
			t.Errorf("packet %d: %d bytes, quiet %t", i, len(b), p.IsQuiet())
		}
		if p.IsSilent() {
			silent++
		}
	}
	if silent == 0 || silent == len(packets) {
		t.Errorf("%d packets: %d silent", len(packets), silent)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	var p Packet
	b := []byte("\x4b\x83\x01\x00abc")
	if n := testing.AllocsPerRun(100, func() {
		if p.Parse(b) != nil {
			t.Error("malformed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range recording(f, "09_no.opk")[:8] {
		f.Add(b)
	}
	f.Add([]byte("\x4b\xc2\x01\x01abX"))
	f.Add([]byte("\x4a\x01abc"))
	f.Add([]byte("\x49abcd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again Packet
		if err := p.Parse(b); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if p.Count() < 1 || p.Count() > MaxFrames || p.Duration() > MaxDuration || Duration(b) != p.Duration() {
			t.Fatalf("%d frames, %s, %s", p.Count(), p.Duration(), Duration(b))
		}
		var frames [][]byte
		sum := p.Padding
		for i := range p.Count() {
			frames = append(frames, p.Frame(i))
			sum += len(p.Frame(i))
		}
		if sum > len(b)-1 {
			t.Fatalf("%d bytes of frames and padding in %d", sum, len(b))
		}
		packet, err := Append(nil, p.TOC, frames...)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Parse(packet); err != nil || again.Count() != p.Count() || len(packet) > len(b) {
			t.Fatalf("%v, %d frames in %d bytes", err, again.Count(), len(packet))
		}
		for i := range frames {
			if !bytes.Equal(frames[i], again.Frame(i)) {
				t.Fatalf("frame %d changed", i)
			}
		}
	})
}
