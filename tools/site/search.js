"use strict";
// Lists the sections that have all words of the query, those with words in their title first.
{
  const form = document.querySelector("[data-search]");
  const input = form.querySelector("input");
  const list = document.getElementById("hits");
  const article = list.nextElementSibling;
  let sections = null;

  const load = async () => {
    if (!sections) {
      sections = fetch(form.dataset.search).then((response) => response.json());
    }
    return sections;
  };

  const count = (text, term) => text.split(term).length - 1;

  const rank = (terms, [, title, text]) => {
    let total = 0;
    for (const term of terms) {
      const score = 10 * count(title.toLowerCase(), term) + Math.min(count(text.toLowerCase(), term), 5);
      if (!score) {
        return 0;
      }
      total += score;
    }
    return total;
  };

  const excerpt = (text, term) => {
    const from = Math.max(text.toLowerCase().indexOf(term) - 40, 0);
    return (from > 0 ? "…" : "") + text.slice(from, from + 160) + (from + 160 < text.length ? "…" : "");
  };

  const item = (terms, [address, title, text]) => {
    const li = document.createElement("li");
    const link = document.createElement("a");
    link.href = address;
    link.textContent = title;
    const words = document.createElement("p");
    words.textContent = excerpt(text, terms[0]);
    li.append(link, words);
    return li;
  };

  const show = async () => {
    const terms = input.value.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 16);
    if (terms.length) {
      const found = (await load()).map((s) => [rank(terms, s), s]).filter(([score]) => score > 0);
      found.sort((a, b) => b[0] - a[0]);
      list.replaceChildren(...found.slice(0, 30).map(([, s]) => item(terms, s)));
      if (!found.length) {
        list.textContent = document.body.dataset.nothing;
      }
    }
    list.hidden = !terms.length;
    if (article) {
      article.hidden = Boolean(terms.length);
    }
  };

  input.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("click", () => {
    list.hidden = true;
    article.hidden = false;
  });
}
