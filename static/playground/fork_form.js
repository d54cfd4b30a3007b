// The messages of a fork: says which of them differ from the run that they come from.
(function () {
  "use strict";

  const form = document.querySelector("[data-new-run]");
  if (!form) return;

  const original = (field) =>
    field.matches("select") ? [...field.options].find((option) => option.defaultSelected).value : field.defaultValue;

  // What the server found to be edited stays marked: only it knows what stood there before.
  const isEdited = (field) => field.dataset.edited !== undefined || field.value !== original(field);

  function mark(box) {
    box.querySelector("[data-badge]").hidden = ![...box.querySelectorAll("[data-edit]")].some(isEdited);
  }

  form.addEventListener("input", (event) => {
    const box = event.target.closest("[data-message]");
    if (box && event.target.matches("[data-edit]")) mark(box);
  });
  // What was typed before this script was there, or what the browser has put back.
  for (const box of form.querySelectorAll("[data-message]:has([data-edit])")) mark(box);
})();
