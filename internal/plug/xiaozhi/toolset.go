package xiaozhi

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/tool"
)

// maxToolsets limits the toolsets in the cache. Boards come in some dozens of kinds and firmware
// versions; if there are more, the cache is emptied.
const maxToolsets = 256

// toolset is what a board can do. Boards of the same kind and firmware share one, which saves some
// 20 KB per board. It must not be changed.
type toolset struct {
	remote.Catalog
	tools []tool.Tool // the built-in ones, and the board's
}

// emptyToolset is the toolset of a board whose tools are unknown.
var emptyToolset = &toolset{tools: builtinTools}

// toolsetCache holds the shared toolsets, by the hash of their catalog.
type toolsetCache struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*toolset
}

// get returns the toolset of a catalog in JSON.
func (r *toolsetCache) get(text []byte) (*toolset, error) {
	sum := sha256.Sum256(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byHash[sum]; known != nil {
		return known, nil
	}
	var c remote.Catalog
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	fresh := &toolset{Catalog: c, tools: withBuiltin(c.Tools)}
	if r.byHash == nil || len(r.byHash) >= maxToolsets {
		r.byHash = map[[sha256.Size]byte]*toolset{}
	}
	r.byHash[sum] = fresh
	return fresh, nil
}

// firmwareTitles are the titles of the firmware's tools (xiaozhi-esp32 main/mcp_server.cc), which
// has none.
var firmwareTitles = map[string]string{
	"self.get_device_status": "Device status", toolVolume: "Volume", "self.screen.set_brightness": "Brightness",
	"self.screen.set_theme": "Theme of the screen", "self.camera.take_photo": "Take a photo",
	"self.get_system_info": "System information", "self.reboot": "Restart the device",
	"self.upgrade_firmware": "Upgrade the firmware", "self.screen.get_info": "Screen information",
	"self.screen.snapshot": "Picture of the screen", "self.screen.preview_image": "Show a picture on the screen",
	"self.assets.set_download_url": "Set where the assets come from",
}

// withBuiltin adds the built-in tools. They replace tools of the board with the same names.
func withBuiltin(tools []tool.Tool) []tool.Tool {
	all := make([]tool.Tool, 0, len(builtinTools)+len(tools))
	all = append(all, builtinTools...)
	if slices.ContainsFunc(tools, func(t tool.Tool) bool { return remote.TakesPhoto(t.Name) }) {
		all = append(all, videoTool)
	}
	for _, t := range tools {
		if !slices.ContainsFunc(all, func(o tool.Tool) bool { return o.Name == t.Name }) {
			t.Title = cmp.Or(t.Title, firmwareTitles[t.Name])
			all = append(all, t)
		}
	}
	return all
}
