package voice

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"
)

// TestLive checks that packets come out as samples of the same duration, without malformed packets
// and without pauses, and that a write error is returned.
func TestLive(t *testing.T) {
	said, err := os.ReadFile("endpoint/testdata/04_good_morning.opk")
	if err != nil {
		t.Fatal(err)
	}
	var packets [][]byte
	for len(said) >= 2 {
		n := 2 + int(binary.BigEndian.Uint16(said))
		packets, said = append(packets, said[2:n]), said[n:]
	}
	var file bytes.Buffer
	l, err := NewWAVStream(&file)
	if err != nil {
		t.Fatal(err)
	}
	if file.Len() != 44 || !bytes.HasPrefix(file.Bytes(), []byte("RIFF")) ||
		binary.LittleEndian.Uint32(file.Bytes()[24:]) != wavStreamRate {
		t.Fatalf("the head is %q", file.Bytes())
	}
	at := time.Now()
	for i, p := range packets {
		if i == 3 {
			at = at.Add(time.Hour)
			if err := l.Packet(at, []byte{0xff}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Packet(at, p); err != nil {
			t.Fatal(err)
		}
	}
	want := time.Duration(len(packets)) * 60 * time.Millisecond
	if l.Length() != want || file.Len() != 44+2*int(want*wavStreamRate/time.Second) {
		t.Errorf("%v are %d bytes; said were %v", l.Length(), file.Len(), want)
	}
	loudest := int16(0)
	for b := file.Bytes()[44:]; len(b) > 1; b = b[2:] {
		loudest = max(loudest, int16(binary.LittleEndian.Uint16(b)))
	}
	if loudest < 1000 {
		t.Errorf("the loudest is %d: nobody speaks", loudest)
	}
	gone := errors.New("gone")
	l.w = writer(func([]byte) (int, error) { return 0, gone })
	if err := l.Packet(at, packets[0]); !errors.Is(err, gone) {
		t.Errorf("who has gone is written to, with %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
