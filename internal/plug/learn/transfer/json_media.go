package transfer

import "io"

// media writes the pictures and sounds.
func (j *jsonWriter) media() {
	if j.o.Media == nil || j.err != nil {
		return
	}
	total, left, separator := 0, 0, ",\n\"media\": [\n"
	err := j.o.Media(func(name string, content io.Reader) error {
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if total += len(data); total > maxJSONMedia {
			total -= len(data)
			left++
			return nil
		}
		j.put(separator)
		j.marshal(jsonMedia{name, data})
		separator = ",\n"
		return j.err
	})
	if j.err == nil {
		j.err = err
	}
	if separator == ",\n" {
		j.put("\n]")
	}
	if left > 0 {
		j.put(",\n\"media_left_out\": ")
		j.marshal(left)
	}
}
