package config

import (
	"encoding/json"
	"math"
	"testing"
	"time"
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

func TestDuration(t *testing.T) {
	const refused = time.Duration(math.MinInt64)
	for _, tt := range []struct {
		text string
		want time.Duration
		back string
	}{
		{"0", 0, "0s"}, {"0s", 0, "0s"}, {"7s", 7 * time.Second, "7s"}, {"60s", time.Minute, "1m"},
		{"10m", 10 * time.Minute, "10m"},
		{"1h", time.Hour, "1h"}, {"90m", 90 * time.Minute, "1h30m"}, {"1h0m1s", time.Hour + time.Second, "1h0m1s"},
		{"100ms", 100 * time.Millisecond, "100ms"},
		{"24h", day, "1d"}, {"7d", 7 * day, "7d"}, {"1d12h", 36 * time.Hour, "36h"}, {" 30d ", 30 * day, "30d"},
		{"0d", 0, "0s"}, {"0d5s", 5 * time.Second, "5s"},
		{"-5s", -5 * time.Second, "-5s"}, {"-24h", -day, "-24h"}, {"106751d", 106751 * day, "106751d"},
		{"106752d", refused, ""}, {"106751d24h", refused, ""}, {"-1d", refused, ""}, {"1d-1h", refused, ""},
		{"1.5d", refused, ""},
		{"d", refused, ""}, {"1dd", refused, ""}, {"1h1d", refused, ""}, {"1d 1h", refused, ""}, {"60", refused, ""},
		{"", refused, ""}, {"soon", refused, ""}, {"1w", refused, ""},
	} {
		got, err := ParseDuration(tt.text)
		if tt.want == refused {
			if err == nil {
				t.Errorf("%q is accepted as %v", tt.text, got)
			}
			continue
		}
		if err != nil || got != tt.want || formatDuration(got) != tt.back {
			t.Errorf("%q is %v (%s), %v; want %v, %s", tt.text, got, formatDuration(got), err, tt.want, tt.back)
		}
		if again, err := ParseDuration(formatDuration(got)); err != nil || again != got {
			t.Errorf("%q comes back as %v, %v", formatDuration(got), again, err)
		}
	}
}
