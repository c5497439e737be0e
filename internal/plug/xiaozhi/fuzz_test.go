package xiaozhi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Whatever is posted, boards survive the response, and the stored values can be displayed.
func FuzzHome(f *testing.F) {
	for _, body := range []string{
		full, "", "{}", "null", "[]", `{"version":"2","language":7,"application":7,"board":[]}`,
		`{"application":{"version":"2.4.2\u0000"},"board":{"name":"a\u0000","type":"b"},"language":"en"}`,
		`{"mac_address":"AA-BB-CC-DD-EE-00","uuid":"x"}`, `{"application":{"version":"99999999999999999999.0"}}`,
	} {
		f.Add([]byte(body), mac, uuid1, "bread/2.4.2", "zh-CN")
		f.Add([]byte(body), "", "", "", "")
	}
	r := newRig(f, func(o *xiaozhi.DiscoveryOptions) {
		o.CallsPerMinute, o.AutoOwner = 1<<40, "me"
		o.Firmware = func(family, version string) (string, string, bool) { return "9.9.9", "x-9.9.9.bin", true }
	})
	asking := newRig(f, func(o *xiaozhi.DiscoveryOptions) { o.CallsPerMinute = 1 << 40 })
	f.Fuzz(func(t *testing.T, body []byte, device, client, agent, lang string) {
		for _, r := range []*rig{r, asking} {
			req := httptest.NewRequest(http.MethodPost, "http://board.example.org/xiaozhi/ota/",
				strings.NewReader(string(body)))
			for name, value := range map[string]string{"Device-Id": device, "Client-Id": client, "User-Agent": agent,
				"Accept-Language": lang} {
				if strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0 {
					req.Header.Set(name, value)
				}
			}
			w := httptest.NewRecorder()
			r.home.ServeHTTP(w, req)
			id, known := xiaozhi.DeviceFromRequest(req)
			switch {
			case w.Code == http.StatusBadRequest && !known:
				continue
			case w.Code != http.StatusOK:
				t.Fatalf("status %d: %s", w.Code, r.log)
			}
			if faults := wire.CheckOTAResponse(w.Body.Bytes()); len(faults) > 0 {
				t.Fatalf("%s: %v", w.Body, faults)
			}
			if !known {
				continue
			}
			d, err := r.db.Devices.ByHardware(ctx, xiaozhi.Kind, id.Hardware)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{d.Family, d.Article, d.Version, d.Language, d.Name} {
				if !utf8.ValidString(s) || len(s) > 400 || strings.ContainsFunc(s,
					func(r rune) bool { return r < ' ' || r == 0x7f }) {
					t.Fatalf("kept %q", s)
				}
			}
		}
	})
}
