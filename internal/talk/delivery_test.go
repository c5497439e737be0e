package talk

import (
	"testing"
	"time"
)

func TestParseTraceparent(t *testing.T) {
	const name = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for header, want := range map[string]string{
		name: name, " " + name: name, "": "", "x": "", name + "-more": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": "",
	} {
		if got := ParseTraceparent(header); got != want {
			t.Errorf("%q names %q, want %q", header, got, want)
		}
	}
}

// What is in one part is told from what is in two, and in a picture from what is in words.
func TestDeliveriesOfOtherContents(t *testing.T) {
	turns := []*Turn{
		{}, {Parts: []Part{{Text: "a"}}}, {Parts: []Part{{Text: "a"}, {Text: "b"}}}, {Parts: []Part{{Text: "ab"}}},
		{Parts: []Part{{Image: &Image{Data: []byte("a")}}}}, {Metadata: []byte(`a`)},
		{Metadata: []byte(`{}`), Parts: []Part{{Text: "a"}}},
	}
	now := time.Now()
	for i, a := range turns {
		for j, b := range turns {
			if NewDelivery(a, now).Repeats(NewDelivery(b, now)) != (i == j) {
				t.Errorf("turns %d and %d", i, j)
			}
		}
	}
}
