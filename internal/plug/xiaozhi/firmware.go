package xiaozhi

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const (
	firmwareExt = ".bin"
	// downloadTimeout is how long a firmware download may take: 4 MB over a slow connection.
	downloadTimeout = 15 * time.Minute
)

// offerFirmware adds newer firmware to the response if there is some that the board can use.
func (d *Discovery) offerFirmware(ctx context.Context, f *wire.Firmware, device store.Device, c store.DeviceCall,
	p serverURL) {
	if d.Firmware == nil {
		return
	}
	newer, url, ok := d.Firmware(c.Family, c.Version)
	if !ok {
		return
	}
	if !strings.Contains(url, "://") {
		url = p.file(FirmwarePath + url)
	}
	_, badURL := wire.ParseHTTPURL(url)
	is, badVersion := wire.Newer(newer, c.Version)
	if badURL != nil || badVersion != nil {
		d.Logger.ErrorContext(ctx, "firmware cannot be offered to a board", "family", c.Family, "firmware", newer,
			"url", badURL, "version", badVersion)
		return
	}
	if is {
		f.Version, f.URL = newer, url
		d.metrics.firmware.WithLabelValues("offered").Inc()
		d.Logger.InfoContext(ctx, "a board is offered firmware", "device", device.Number, "board", c.Hardware,
			"from", c.Version, "to", newer)
	}
}

// newestFirmware returns the newest firmware of a family in the folder. Boards send OTA requests
// only at boot, so the folder is not cached.
func (d *Discovery) newestFirmware(family, version string) (newer, file string, ok bool) {
	entries, err := os.ReadDir(d.FirmwareFolder)
	if err != nil {
		d.Logger.Error("the folder of firmware cannot be read", "error", err)
		return "", "", false
	}
	for _, e := range entries {
		f, v, named := firmwareName(e.Name())
		if !named || f != family || !e.Type().IsRegular() {
			continue
		}
		if is, err := wire.Newer(v, version); err != nil || !is {
			continue
		}
		if ok {
			if is, _ := wire.Newer(v, newer); !is {
				continue
			}
		}
		newer, file, ok = v, e.Name(), true
	}
	return newer, file, ok
}

// firmwareName splits a file name into a family, a dash and a version.
func firmwareName(name string) (family, version string, ok bool) {
	name, ok = strings.CutSuffix(name, firmwareExt)
	i := strings.LastIndexByte(name, '-')
	if !ok || i < 1 || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\:?#% `) {
		return "", "", false
	}
	if _, err := wire.Newer(name[i+1:], "0"); err != nil {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// ServeFirmware serves the file that the URL path ends in, with a Content-Length: boards refuse an
// upgrade without one (xiaozhi-esp32 main/ota.cc, Ota::Upgrade).
func (d *Discovery) ServeFirmware(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET")
		http.Error(w, "firmware is fetched by GET", http.StatusMethodNotAllowed)
		return
	}
	if d.otaGuard.Refuse(d.Address(r)) {
		d.refuse(w, r, d.metrics.firmware, "too_many", http.StatusTooManyRequests)
		return
	}
	file, info := d.openFirmware(path.Base(r.URL.Path))
	if file == nil {
		d.metrics.firmware.WithLabelValues("missing").Inc()
		http.Error(w, "there is no such firmware", http.StatusNotFound)
		return
	}
	defer file.Close()                                                                  //nolint:errcheck // it was only read
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadTimeout)) // not always supported
	d.metrics.firmware.WithLabelValues("fetched").Inc()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), file)
}

// openFirmware opens a firmware file in the folder; it returns nil for anything else.
func (d *Discovery) openFirmware(name string) (*os.File, fs.FileInfo) {
	if _, _, ok := firmwareName(name); !ok || d.FirmwareFolder == "" {
		return nil, nil
	}
	file, err := os.OpenInRoot(d.FirmwareFolder, name)
	if err != nil {
		return nil, nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		_ = file.Close()
		return nil, nil
	}
	return file, info
}
