"use strict";
// The token stays in the memory of this page. All text is set as text, so that no name is markup.
let token = "";
const at = id => document.getElementById(id);
const short = id => id.slice(0, 12);
const seconds = s => s == null ? "" : s.toPrecision(3) + " s";
const bytes = n => (n / 2 ** 20).toFixed(1) + " MiB";

function row(cells, click) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const box = document.createElement("td");
    if (cell instanceof Node) box.append(cell); else box.textContent = cell;
    line.append(box);
  }
  if (click) line.onclick = click;
  return line;
}

async function get(path) {
  const answer = await fetch(path, {headers: {Authorization: "Bearer " + token}});
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.message);
  return found;
}

function elapsed(job) {
  if (job.state !== "running") return seconds(job.seconds);
  const bar = document.createElement("progress");
  bar.max = job.predicted_seconds;
  bar.value = Date.now() / 1000 - job.started;
  return bar;
}

async function show() {
  if (!token) return;
  try {
    const {jobs} = await get("v1/jobs");
    at("jobs").replaceChildren(...jobs.map(job => row([
      short(job.job), short(job.program), job.state, job.place ?? "", seconds(job.predicted_seconds), elapsed(job)])));
    const {programs} = await get("v1/programs");
    at("programs").replaceChildren(...programs.map(one => row([
      one.names.join(", "), short(one.id),
      Object.entries(one.operands).map(([name, it]) => `${name} ${it.shape.join("×")}`).join(", "),
      seconds(one.predicted_seconds), bytes(one.peak_bytes), bytes(one.key_bytes)],
      () => { at("plan").textContent = one.explain; })));
    at("state").textContent = "";
  } catch (error) {
    at("state").textContent = error.message;
  }
}

document.querySelector("form").onsubmit = event => {
  event.preventDefault();
  token = at("token").value;
  show();
};
setInterval(show, 2000);
