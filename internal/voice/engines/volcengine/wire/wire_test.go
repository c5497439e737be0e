package wire_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engines/volcengine/wire"
)

// goldens are frames of Volcengine's documents and what they mean.
var goldens = map[string]wire.Frame{
	"11100000 00000002 7b7d":          {Type: wire.FullRequest, Payload: []byte("{}")},
	"11101000 00000002 7b7d":          {Type: wire.FullRequest, JSON: true, Payload: []byte("{}")},
	"11200000 00000004 01000200":      {Type: wire.AudioRequest, Payload: []byte{1, 0, 2, 0}},
	"11220000 00000000":               {Type: wire.AudioRequest, Flags: wire.LastNoSequence, Payload: []byte{}},
	"11141000 00000001 00000002 7b7d": {Type: wire.FullRequest, Flags: wire.WithEvent, JSON: true, Event: wire.StartConnection, Payload: []byte("{}")},
	"11f01000 02aea541 00000004 6f6f7073": {Type: wire.ErrorResponse, JSON: true, Code: 45000001,
		Payload: []byte("oops")},
	"11911000 00000001 00000018 7b22726573756c74223a7b2274657874223a226869227d7d": {Type: wire.FullResponse,
		Flags: wire.PositiveSequence, JSON: true, Sequence: 1, Payload: []byte(`{"result":{"text":"hi"}}`)},
	"11931000 fffffffe 00000002 7b7d": {Type: wire.FullResponse, Flags: wire.NegativeSequence, JSON: true,
		Sequence: -2, Payload: []byte("{}")},
	"11941000 00000032 00000003 61626300000002 7b7d": {Type: wire.FullResponse, Flags: wire.WithEvent, JSON: true,
		Event: wire.ConnectionStarted, ID: "abc", Payload: []byte("{}")},
	"11b40000 00000160 00000010 30313233343536373839616263646566 00000002 0102": {Type: wire.AudioResponse,
		Flags: wire.WithEvent, Event: wire.Audio, ID: "0123456789abcdef", Payload: []byte{1, 2}},
	"11141000 000000c8 00000010 30313233343536373839616263646566 00000002 7b7d": {Type: wire.FullRequest,
		Flags: wire.WithEvent, JSON: true, Event: wire.TaskRequest, ID: "0123456789abcdef", Payload: []byte("{}")},
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGolden checks frames in both directions.
func TestGolden(t *testing.T) {
	for text, want := range goldens {
		data := unhex(t, text)
		got, err := wire.Parse(data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
		if b := want.Append(nil); !bytes.Equal(b, data) {
			t.Errorf("% x, want %s", b, text)
		}
	}
}

// TestGzip checks that a payload is compressed by the frame's own header, with a limit.
func TestGzip(t *testing.T) {
	f := wire.Frame{Type: wire.FullResponse, JSON: true, Gzip: true, Payload: []byte(`{"a":"` + strings.Repeat("x", 9000) + `"}`)}
	b := f.Append(nil)
	if got, err := wire.Parse(b); err != nil || !cmp.Equal(got, f) || len(b) > 200 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	f.Payload = make([]byte, wire.MaxPayload+1)
	if _, err := wire.Parse(f.Append(nil)); err == nil {
		t.Error("a payload of more than the limit")
	}
	b[len(b)-9] ^= 0xff
	if _, err := wire.Parse(b); err == nil {
		t.Error("a payload that is no gzip")
	}
}

// TestInvalid checks what is no frame.
func TestInvalid(t *testing.T) {
	for _, text := range []string{"", "11", "21100000 00000000", "10100000 00000000", "11150000 00000000",
		"11100200 00000000", "11100000 00000001", "11100000 00000001 6161", "11100000 ffffffff", "11f00000 00000001",
		"11910000 000000", "11940000 00000032 ffffffff"} {
		if f, err := wire.Parse(unhex(t, text)); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}

// FuzzParse checks that whatever parses is written as it came, unless it is compressed or has
// extensions.
func FuzzParse(f *testing.F) {
	for text := range goldens {
		data, _ := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := wire.Parse(data)
		if err != nil || frame.Gzip || data[0] != 0x11 {
			return
		}
		again, err := wire.Parse(frame.Append(nil))
		if err != nil || !cmp.Equal(frame, again) {
			t.Errorf("%+v, %+v, %v", frame, again, err)
		}
	})
}
