package xiaozhi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/plug/xiaozhi"
)

func TestFirmware(t *testing.T) {
	folder := t.TempDir()
	image := strings.Repeat("firmware", 40<<10)
	for _, name := range []string{
		"bread-compact-wifi-2.4.3.bin", "bread-compact-wifi-2.10.0.bin", "bread-compact-wifi-2.9.bin",
		"bread-compact-wifi-3.0-beta.bin",
		"other-9.0.bin", "notes.txt", "secret-1.0.key", ".hidden-1.0.bin",
	} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(image), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(folder, "empty-1.0.bin"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(folder, "bread-compact-wifi-9.9.bin"), 0o700))
	outside := filepath.Join(t.TempDir(), "outside-1.0.bin")
	must(t, os.WriteFile(outside, []byte("x"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(folder, "outside-1.0.bin")))

	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.FirmwareFolder, o.AutoOwner = folder, "me" })
	body := func(version string) string { return strings.Replace(full, `"2.4.2"`, strconv.Quote(version), 1) }
	for running, want := range map[string]string{"2.4.2": "2.10.0", "2.9.9": "2.10.0", "2.10.0": "", "2.10.0.1": "",
		"3.0": "", "beta": ""} {
		a := r.call(headers(mac, uuid1), body(running))
		if want == "" {
			if a.Firmware.URL != "" {
				t.Errorf("%s is offered %+v", running, a.Firmware)
			}
			continue
		}
		if a.Firmware.Version != want || a.Firmware.URL != r.URL+"/xiaozhi/firmware/bread-compact-wifi-"+want+".bin" {
			t.Errorf("%s is offered %+v", running, a.Firmware)
		}
		res := r.do(http.MethodGet, a.Firmware.URL, http.Header{}, "")
		if res.status != http.StatusOK || res.length != int64(len(image)) || string(res.body) != image {
			t.Errorf("%d, %d bytes announced, %d came", res.status, res.length, len(res.body))
		}
	}
	for _, file := range []string{"", "notes.txt", "secret-1.0.key", ".hidden-1.0.bin", "empty-1.0.bin",
		"outside-1.0.bin", "bread-compact-wifi-9.9.bin", "none-1.0.bin", "..%2foutside-1.0.bin", "%2e%2e"} {
		if res := r.do(http.MethodGet, "/xiaozhi/firmware/"+file, http.Header{}, ""); res.status == http.StatusOK {
			t.Errorf("%q is served: %s", file, res.body)
		}
	}
	if res := r.do(http.MethodPost, "/xiaozhi/firmware/other-9.0.bin", http.Header{},
		""); res.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.status)
	}
	// A board without approval gets no offer.
	plain := newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.FirmwareFolder = folder })
	if a := plain.call(headers(mac, uuid1), full); a.Firmware.URL != "" || a.Firmware.Version != "2.4.2" {
		t.Errorf("before the approval: %+v", a.Firmware)
	}
}

// Firmware whose version or URL would crash a board is not offered.
func TestBadFirmware(t *testing.T) {
	var version, url string
	r := newRig(t, func(o *xiaozhi.DiscoveryOptions) {
		o.AutoOwner = "me"
		o.Firmware = func(family, running string) (string, string, bool) {
			return version, url, family == "bread-compact-wifi" && running == "2.4.2"
		}
	})
	for offer, want := range map[[2]string]string{
		{"2.5.0", "https://example.org/a.bin"}: "https://example.org/a.bin",
		{"2.5.0", "a-2.5.0.bin"}:               r.URL + "/xiaozhi/firmware/a-2.5.0.bin",
		{"2.5.0-rc1", "a-2.5.0.bin"}:           "",
		{"v2.5.0", "a-2.5.0.bin"}:              "",
		{"", "a-2.5.0.bin"}:                    "",
		{"2.5.0", "ftp://example.org/a.bin"}:   "",
		{"2.5.0", "https://[::1]/a.bin"}:       "",
		{"2.4.2", "https://example.org/a.bin"}: "",
		{"2.4.1", "https://example.org/a.bin"}: "",
	} {
		version, url = offer[0], offer[1]
		a := r.call(headers(mac, uuid1), full)
		if a.Firmware.URL != want || want == "" && a.Firmware.Version != "2.4.2" {
			t.Errorf("%q: %+v", offer, a.Firmware)
		}
	}
}
