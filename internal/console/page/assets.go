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

//go:embed assets/*.css assets/*.js assets/mark.svg
var files embed.FS

// asset is a file that pages need, packed.
type asset struct {
	kind          string // MIME type
	plain, packed []byte
}

// assets are the files by the names that pages call them by, which have a part of
// their contents' hash: what a browser has kept is never out of date. urls are those
// names by the files' own ones.
var assets, urls = func() (map[string]asset, map[string]string) {
	all, named := map[string]asset{}, map[string]string{}
	for name, kind := range map[string]string{
		"console.css": "text/css; charset=utf-8", "mark.svg": "image/svg+xml", "htmx.js": script, "console.js": script,
	} {
		text := readFiles(madeOf[name], name)
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a level that there is
		z.Write(text)                                              //nolint:errcheck // into memory
		z.Close()                                                  //nolint:errcheck // the same
		sum := sha256.Sum256(text)
		ext := path.Ext(name)
		url := strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		all[url], named[name] = asset{kind, text, packed.Bytes()}, "/assets/"+url
	}
	return all, named
}()

// madeOf are the files that browsers get as one. htmx looks at the page a moment after
// it has come: what extends it must not come later than that.
var madeOf = map[string][]string{"htmx.js": {"htmx.min.js", "hx-sse.min.js"}}

// readFiles reads what browsers get by a name: some files, or the one of that name.
func readFiles(names []string, name string) []byte {
	if names == nil {
		names = []string{name}
	}
	var all [][]byte
	for _, name := range names {
		text, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte(";\n"))
}

// assetURL is the address of a file.
func assetURL(name string) string { return urls[name] }

// assetLife is how long browsers keep a file, which never changes.
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
	w.Write(text) //nolint:errcheck // the browser has gone
}
