package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets/*.css assets/*.js assets/*/*.js assets/mark.svg assets/*.png
var files embed.FS

// asset is a compressed static file.
type asset struct {
	kind          string // MIME type
	plain, packed []byte
}

// assets maps URL names to files. Each URL name contains a part of the hash of the contents, so
// that browsers never use an outdated copy. urls maps file names to URL names.
var assets, urls = func() (map[string]asset, map[string]string) {
	all, named := map[string]asset{}, map[string]string{}
	add := func(name, url, kind string, text []byte) {
		all[url], named[name] = asset{kind, text, pack(text)}, "/assets/"+url
	}
	for name, kind := range map[string]string{
		"console.css": "text/css; charset=utf-8", "mark.svg": "image/svg+xml", "htmx.js": script, "console.js": script,
		"map.js":    script,
		"pocket.js": script, "pocket-page.js": script, "pocket-push.js": script, "icon-192.png": "image/png",
		"icon-512.png": "image/png",
	} {
		text, ext := readFiles(bundles[name], name), path.Ext(name)
		add(name, strings.TrimSuffix(name, ext)+"-"+hash(text)+ext, kind, text)
	}
	for _, folder := range modules {
		texts, sums := map[string][]byte{}, []byte{}
		found, _ := files.ReadDir("assets/" + folder) // sorted; it is embedded
		for _, f := range found {
			texts[f.Name()] = readFiles(nil, folder+"/"+f.Name())
			sums = append(sums, hash(texts[f.Name()])...)
		}
		for name, text := range texts {
			add(folder+"/"+name, folder+"-"+hash(sums)+"/"+name, script, text)
		}
	}
	return all, named
}()

// modules are folders of scripts that import one another by name, so their URLs have a hash of the
// whole folder.
var modules = []string{"talk"}

// hash returns a part of the hash of a file.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

func pack(text []byte) []byte {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	z.Write(text)                                              //nolint:errcheck // into memory
	z.Close()                                                  //nolint:errcheck // into memory
	return packed.Bytes()
}

// bundles lists the files that browsers get as one. htmx processes the page shortly after it has
// loaded; its extensions must be loaded by then.
var bundles = map[string][]string{
	"htmx.js":        {"htmx.min.js", "hx-sse.min.js"},
	"console.js":     {"console.js", "palette.js", "pocket/leave.js"},
	"pocket.js":      {"pocket/schedule.js", "pocket/queue.js", "pocket/store.js"},
	"pocket-page.js": {"pocket/app.js"},
	"pocket-push.js": {"pocket/push.js"},
}

// readFiles returns the concatenated files of names or, if there are none, the file of that name.
func readFiles(names []string, name string) []byte {
	if names == nil {
		names = []string{name}
	}
	var all [][]byte
	for _, name := range names {
		text, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // the file is embedded
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte(";\n"))
}

// Worker returns the script of the service worker of Learn, with the addresses of what it keeps,
// and its version, which changes with the contents of any of them.
func Worker() (text, version string) {
	list := []string{}
	for _, name := range []string{"console.css", "mark.svg", "htmx.js", "console.js", "pocket.js", "pocket-page.js",
		"icon-192.png"} {
		list = append(list, strconv.Quote(AssetURL(name)))
	}
	worker := readFiles(nil, "pocket/worker.js")
	version = hash(append([]byte(strings.Join(list, " ")), worker...))
	return `const VERSION = "` + version + `", FILES = [` + strings.Join(list, ", ") + `], SCRIPTS = ["` +
		AssetURL("pocket.js") + `"], ICON = "` + AssetURL("icon-192.png") + "\";\n" + string(worker), version
}

// AssetURL returns the URL of a file, such as console.css or talk/main.js.
func AssetURL(name string) string { return urls[name] }

// assetLife is the Cache-Control of files, which never change under the same URL.
const assetLife = "public, max-age=31536000, immutable"

const script = "text/javascript; charset=utf-8"

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", assetLife)
	h.Set("Vary", "Accept-Encoding")
	text := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = a.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.Write(text) //nolint:errcheck // the browser may have disconnected
}
