package learn

import (
	"context"
	"net/http"
	"net/url"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
)

// tagsPageMost is how many tags are listed.
const tagsPageMost = 200

// tagForm is the form of a tag.
type tagForm struct {
	Tag    string
	Points int
	Name   string
	// TargetPoints is how many points already have the new name as a tag; 0 means none. If there
	// are any, renaming merges the two tags and needs a confirmation.
	TargetPoints int
	Wrong        string
	Note         string
}

// tagPath returns the path of a tag's page.
func tagPath(tag string) string { return "/learn/tags/" + url.PathEscape(tag) }

// tags shows the list of tags.
func (p *pages) tags(v *page.Visit) {
	tags, err := p.Points.Tags(v.Context(), personID(v), v.FormValue("after"), tagsPageMost+1)
	if err != nil {
		v.Fail(err)
		return
	}
	next := ""
	if len(tags) > tagsPageMost {
		tags = tags[:tagsPageMost]
		next = "/learn/tags?" + query("after", tags[tagsPageMost-1].Tag)
	}
	v.Render(ok, tagsPage(v, tags, next))
}

// tagForm loads the tag that the path names.
func (p *pages) tagForm(v *page.Visit) (*tagForm, error) {
	f := &tagForm{Tag: v.PathValue("tag")}
	f.Name = f.Tag
	var err error
	if f.Points, err = p.Points.CountTagged(v.Context(), personID(v), f.Tag); err != nil {
		return nil, err
	}
	if f.Points <= 0 {
		return nil, learnError(learning.ErrTagNotFound)
	}
	return f, nil
}

// tag shows the form that renames a tag.
func (p *pages) tag(v *page.Visit) {
	f, err := p.tagForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("saved") != "" {
		f.Note = v.Text(msgSaved)
	}
	v.Render(ok, tagPage(v, f))
}

// renameTag renames a tag on all its points, which may take a while. A merge with another tag needs
// a confirmation.
func (p *pages) renameTag(v *page.Visit) {
	f, err := p.tagForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	typed := v.FormValue("name")
	f.Name = typed
	again := func(status int, wrong string) {
		f.Wrong = wrong
		if v.IsPartial() {
			v.Render(status, tagPart(v, f))
			return
		}
		v.Render(status, tagPage(v, f))
	}
	name, err := learning.NormalizeTag(typed)
	if err != nil || len(tagsOf(typed)) > 1 {
		again(http.StatusUnprocessableEntity, v.Text(msgBadTag, tagMost))
		return
	}
	f.Name = name
	// The confirmation is valid only for the name that it was about.
	merge := v.FormValue("merge") == name
	if f.TargetPoints, err = p.Points.CountTagged(v.Context(), personID(v), name); err != nil {
		v.Fail(err)
		return
	}
	if f.TargetPoints > 0 && name != f.Tag && !merge {
		again(http.StatusConflict, "")
		return
	}
	f.TargetPoints = 0
	save := func(ctx context.Context, progress func(done, total int)) error {
		return changeAudited(v, control.LearnRenameTag, control.LearnTagArgs{Tag: f.Tag, Name: name, Merge: merge},
			func() error {
				_, _, err := p.Points.RenameTag(ctx, personID(v), f.Tag, name, merge, progress)
				return err
			})
	}
	p.renameWithProgress(v, f, save, again)
}

// renameWithProgress renames a tag and shows the progress: in place for the script, else only the
// result.
func (p *pages) renameWithProgress(v *page.Visit, f *tagForm, save func(context.Context, func(done, total int)) error,
	again func(int, string)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), saveTime)
	defer cancel()
	if !v.IsPartial() {
		if err := save(ctx, nil); err != nil {
			if text, status := v.Wrong(learnError(err)); text != "" {
				again(status, text)
			}
			return
		}
		v.Redirect(tagPath(f.Name) + "?saved=1")
		return
	}
	v.Live(func(_ context.Context, send page.Send) error {
		report := throttledProgress(send, func(done, total int) templ.Component { return renamingPart(v, done, total) })
		if err := save(ctx, report); err != nil {
			text, _ := v.Wrong(learnError(err))
			return send(savedPart("bad", text))
		}
		n, err := p.Points.CountTagged(ctx, personID(v), f.Name)
		if err != nil {
			v.Wrong(err) // logged; the tag is renamed all the same
		}
		return send(renamedPart(v, &tagForm{Tag: f.Name, Points: n, Name: f.Name, Note: v.Text(msgSaved)}))
	})
}
