package learn

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Texts about pictures and sounds.
const (
	msgMedia        = i18n.Message("Pictures and sounds")
	msgMediaHint    = i18n.Message("Points refer to them by name: ![](name.png), [sound:name.mp3].")
	msgMediaNone    = i18n.Message("No pictures and sounds yet")
	msgMediaAdd     = i18n.Message("Add a file")
	msgMediaLimit   = i18n.Message("%d MiB at most. The place where a photo was taken is removed.")
	msgMediaAdded   = i18n.Message("Stored as %s.")
	msgMediaUnused  = i18n.Message("Show what no point uses")
	msgMediaAll     = i18n.Message("Show all")
	msgMediaClean   = i18n.Message("Delete all that no point uses")
	msgMediaCleanOK = i18n.Message("Delete for good all pictures and sounds that no point uses?")
	msgMediaCleaned = i18n.Message("%d deleted.")
	msgMediaNoFile  = i18n.Message("Choose a file.")
	msgMediaTotal   = i18n.Message("%s in all")
	msgMore         = i18n.Message("More")
	msgAddFile      = i18n.Message("Picture or sound")
	msgTakePhoto    = i18n.Message("Take a photo")
	msgRecord       = i18n.Message("Record a sound")
	msgRecordStop   = i18n.Message("Stop recording")
	msgInsertFailed = i18n.Message("The file could not be added.")
)

// mediaPageSize is the number of files on a page.
const mediaPageSize = 100

// mediaList is the data of the page of pictures and sounds.
type mediaList struct {
	Files  []store.MediaFile
	Next   string // URL of the next page; empty if there is none
	Unused bool
	Total  string
	Note   string
	Wrong  string
}

// mediaPage lists pictures and sounds.
func (p *pages) mediaPage(v *page.Visit) { p.showMedia(v, http.StatusOK, "") }

func (p *pages) showMedia(v *page.Visit, status int, wrong string) {
	l := &mediaList{Unused: v.URL.Query().Get("unused") != "", Wrong: wrong}
	if name := v.URL.Query().Get("added"); name != "" {
		l.Note = v.Text(msgMediaAdded, name)
	}
	if n, err := strconv.Atoi(v.URL.Query().Get("cleaned")); err == nil {
		l.Note = v.Text(msgMediaCleaned, n)
	}
	var err error
	if l.Unused {
		l.Files, err = p.Points.UnusedMedia(v.Context(), personID(v))
	} else {
		l.Files, err = p.Points.MediaList(v.Context(), personID(v), v.URL.Query().Get("after"), mediaPageSize+1)
		if len(l.Files) > mediaPageSize {
			l.Files = l.Files[:mediaPageSize]
			l.Next = "/learn/media?" + query("after", l.Files[mediaPageSize-1].Name)
		}
	}
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	size, err := p.Points.Store.Learn.MediaSize(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	l.Total = bytesText(size)
	v.Render(status, mediaView(v, l))
}

// bytesText returns a size for people.
func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// uploadMedia stores a picture or sound. The script of the editor gets its name alone.
func (p *pages) uploadMedia(v *page.Visit) {
	name, err := p.takeMedia(v)
	script := v.Header.Get("Accept") == "text/plain"
	if err != nil {
		text, status := v.Wrong(learnError(err))
		switch {
		case text == "":
		case script:
			http.Error(v.W, text, status)
		default:
			p.showMedia(v, status, text)
		}
		return
	}
	if script {
		v.W.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(v.W, name) //nolint:errcheck // the browser may have gone
		return
	}
	v.Redirect("/learn/media?" + query("added", name))
}

func (p *pages) takeMedia(v *page.Visit) (string, error) {
	v.Body = http.MaxBytesReader(v.W, v.Body, learning.MaxMedia+64<<10)
	file, header, err := v.FormFile("file")
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return "", problem.New(problem.TooLarge, msgMediaLimit, learning.MaxMedia>>20)
	}
	if err != nil {
		return "", problem.New(problem.Invalid, msgMediaNoFile)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, learning.MaxMedia+1))
	if err != nil {
		return "", err
	}
	var m store.MediaFile
	err = changeAudited(v, "save_media", control.LearnMediaName{Name: header.Filename}, func() (err error) {
		m, err = p.Points.SaveMedia(v.Context(), personID(v), header.Filename, data)
		return err
	})
	return m.Name, err
}

// removeMedia deletes a picture or sound.
func (p *pages) removeMedia(v *page.Visit) {
	name := v.FormValue("name")
	err := changeAudited(v, "delete_media", control.LearnMediaName{Name: name},
		func() error { return p.Points.RemoveMedia(v.Context(), personID(v), name) })
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect("/learn/media?cleaned=1")
}

// removeUnused deletes all that no point uses.
func (p *pages) removeUnused(v *page.Visit) {
	n := 0
	err := changeAudited(v, "delete_unused_media", struct{}{}, func() error {
		list, err := p.Points.RemoveUnusedMedia(v.Context(), personID(v))
		n = len(list)
		return err
	})
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect("/learn/media?cleaned=" + strconv.Itoa(n))
}
