package config

import (
	"encoding/json"
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Size // -1: refused
		back string
	}{
		{"0", 0, "0B"}, {"1", 1, "1B"}, {"1B", 1, "1B"}, {"1024", KiB, "1KiB"}, {"1KiB", KiB, "1KiB"},
		{" 1 kib ", KiB, "1KiB"},
		{"1536KiB", 1536 * KiB, "1536KiB"}, {"8MiB", 8 * MiB, "8MiB"}, {"1GiB", GiB, "1GiB"}, {"1kB", 1000, "1000B"},
		{"5MB", 5_000_000, "5000000B"},
		{"2GB", 2_000_000_000, "1953125KiB"},
		{"8589934591GiB", 8589934591 * GiB, "8589934591GiB"},
		{"8589934592GiB", -1, ""}, {"9223372036854775807", math.MaxInt64, "9223372036854775807B"},
		{"9223372036854775808", -1, ""},
		{"", -1, ""}, {"MiB", -1, ""}, {"-1", -1, ""}, {"+1", -1, ""}, {"1.5MiB", -1, ""}, {"1 M", -1, ""},
		{"1TiB", -1, ""}, {"0x10", -1, ""}, {"1_0", -1, ""},
	} {
		got, err := ParseSize(tt.text)
		if tt.want < 0 {
			if err == nil {
				t.Errorf("%q is accepted as %v", tt.text, got)
			}
			continue
		}
		if err != nil || got != tt.want || got.String() != tt.back {
			t.Errorf("%q is %d (%v), %v; want %d, %s", tt.text, got, got, err, tt.want, tt.back)
		}
		if again, err := ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%q comes back as %d, %v", got.String(), again, err)
		}
	}
	var v struct{ S Size }
	if err := json.Unmarshal([]byte(`{"S":"4KiB"}`), &v); err != nil || v.S != 4*KiB {
		t.Errorf("JSON: %v, %v", v, err)
	}
	if err := json.Unmarshal([]byte(`{"S":"x"}`), &v); err == nil || v.S != 4*KiB {
		t.Errorf("wrong JSON: %v, %v", v, err)
	}
	if out, err := json.Marshal(v); err != nil || string(out) != `{"S":"4KiB"}` {
		t.Errorf("JSON: %s, %v", out, err)
	}
}
