import { act, useState } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { QueryClientProvider } from '@tanstack/react-query';
import { createMemoryRouter } from 'react-router';
import { RouterProvider } from 'react-router/dom';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { initI18n } from '@/lib/i18n';
import { initialValues } from '@/lib/form-values';
import { queryClient } from '@/lib/queries';
import type { FieldSpec, Values } from '@/lib/types';
import { TooltipProvider } from '@/ui/overlay';
import { DynamicForm } from './dynamic-form';

let root: Root | null = null;
let latest: Values = {};

beforeAll(async () => {
  (globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
  await initI18n();
});
afterEach(async () => {
  await act(async () => root?.unmount());
  root = null;
  queryClient.clear();
  vi.unstubAllGlobals();
  document.body.innerHTML = '';
});

async function show(fields: FieldSpec[], stored: Values, system: Record<string, unknown> = {}) {
  function Page() {
    const [values, setValues] = useState(initialValues(fields, stored));
    latest = values;
    return <DynamicForm fields={fields} values={values} onChange={setValues} system={system} errors={{ name: 'required' }} />;
  }
  const host = document.createElement('div');
  document.body.append(host);
  const router = createMemoryRouter([{ path: '/', element: <Page /> }]);
  root = createRoot(host);
  await act(async () => {
    root?.render(
      <QueryClientProvider client={queryClient}>
        <TooltipProvider>
          <RouterProvider router={router} />
        </TooltipProvider>
      </QueryClientProvider>,
    );
  });
  return host;
}

const labelled = (host: HTMLElement, text: string) => {
  const label = [...host.querySelectorAll('label')].find((l) => l.textContent?.replace('*', '').trim() === text);
  return label ? document.getElementById(label.htmlFor) : null;
};
const click = (el: Element | null | undefined) => act(async () => (el as HTMLElement).click());

describe('generated forms', () => {
  it('tie label, hint and error to the control', async () => {
    const host = await show([{ name: 'name', type: 'string', required: true, label: { en_US: 'Name' }, description: { en_US: 'Who it is' } }], {});
    const input = labelled(host, 'Name');
    expect(input?.tagName).toBe('INPUT');
    expect(input?.getAttribute('aria-invalid')).toBe('true');
    const described = (input?.getAttribute('aria-describedby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent);
    expect(described.join(' ')).toMatch(/Who it is.*cannot be empty/);
  });

  it('show an unknown type as text and live on', async () => {
    const host = await show([{ name: 'x', type: 'hologram', label: 'X' }, { name: 'y', type: 'boolean', label: 'Y' }], { x: 'kept' });
    expect((labelled(host, 'X') as HTMLInputElement).value).toBe('kept');
    expect(host.textContent).toContain('hologram');
    expect(labelled(host, 'Y')?.getAttribute('role')).toBe('switch');
  });

  it('follow conditions as values change', async () => {
    const host = await show(
      [
        { name: 'on', type: 'boolean', label: 'On' },
        { name: 'delay', type: 'float', label: 'Delay', default: 1.5, show_if: { field: 'on', operator: 'eq', value: true } },
      ],
      { on: false },
    );
    expect(labelled(host, 'Delay')).toBeNull();
    await click(labelled(host, 'On'));
    expect((labelled(host, 'Delay') as HTMLInputElement).value).toBe('1.5');
    expect(latest.on).toBe(true);
  });

  it('add and remove the entries of a list', async () => {
    const host = await show([{ name: 'l', type: 'array[string]', label: 'List' }], { l: ['a'] });
    await click(host.querySelector('button[aria-label^="Add entry"]'));
    expect(latest.l).toEqual(['a', '']);
    await click(host.querySelector('button[aria-label="Remove entry 1"]'));
    expect(latest.l).toEqual(['']);
  });

  it('drop malformed models instead of crashing', async () => {
    vi.stubGlobal('fetch', async (url: string) =>
      new Response(
        JSON.stringify({
          code: 0,
          msg: 'ok',
          data: url.includes('/models/llm') ? { models: [null, { name: 'no id' }, { uuid: 'u', name: 'good', provider_uuid: 'p' }, { uuid: 5 }] } : { providers: [] },
        }),
      ),
    );
    const host = await show([{ name: 'model', type: 'model-fallback-selector', label: 'Model' }], { model: { primary: 'u' } });
    await act(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
    });
    expect(labelled(host, 'Model')?.textContent).toContain('good');
  });
});
